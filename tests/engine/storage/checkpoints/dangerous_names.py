"""Names that other scanners of pickles call dangerous, copied as data, and those of their bypasses.

Sources: picklescan 1.0.5 (`scanner._unsafe_globals`), fickling 0.1.12 (`fickle.UNSAFE_IMPORTS`,
`analysis.UnsafeImportsML`), modelscan 0.8.8 (`DEFAULT_SETTINGS["unsafe_globals"]`), and published
advisories on ways past these scanners; a name of several of them stands here once.
"""

from __future__ import annotations

MODULES = """
__builtin__ __builtins__ _aix_support _ctypes _frozen_importlib _frozen_importlib_external _imp
_operator _osx_support _pickle _posixsubprocess _pyrepl _signal _sqlite3 _thread aiohttp
aiohttp.client asyncio atexit bdb builtins cProfile cloudpickle code codeop commands compile
compileall ctypes difflib dill distutils distutils.file_util doctest ensurepip eval exec filecmp
fileinput ftplib functools gc glob http httplib idlelib imaplib importlib inspect joblib lib2to3
linecache logging marshal mmap multiprocessing nntplib nt numpy.distutils numpy.f2py
numpy.testing._private.utils operator os pdb pexpect pickle pip pkgutil platform poplib posix
profile pty py_compile pydoc requests requests.api runpy select selectors shelve shutil signal site
smtplib socket socketserver sqlite3 ssl subprocess sys syslog tarfile telnetlib tempfile test
threading timeit torch._dynamo torch._inductor torch.compile torch.hub torch.jit trace types
unittest urllib urllib.request urllib2 uuid venv webbrowser xmlrpc zipfile zipimport
"""
NAMES = """
__builtin__:__import__ __builtin__:apply __builtin__:breakpoint __builtin__:compile
__builtin__:eval __builtin__:exec __builtin__:getattr __builtin__:open
_aix_support:_read_cmd_output _io:FileIO _io:open _operator:attrgetter _operator:itemgetter
_operator:methodcaller _osx_support:_read_output _pickle:loads
asyncio.unix_events:_UnixSubprocessTransport._start builtins:__import__ builtins:apply
builtins:breakpoint builtins:compile builtins:eval builtins:exec builtins:filter builtins:getattr
builtins:globals builtins:map builtins:open builtins:setattr builtins:type builtins:vars
cProfile:run cProfile:runctx cloudpickle.cloudpickle:_builtin_type
cloudpickle.cloudpickle:_function_setstate cloudpickle.cloudpickle:_make_cell
cloudpickle.cloudpickle:_make_empty_cell cloudpickle.cloudpickle:_make_function
cloudpickle.cloudpickle:subimport cloudpickle:loads code:InteractiveInterpreter.runcode
copyreg:__newobj__ copyreg:__newobj_ex__ copyreg:add_extension ctypes:CDLL dill:loads
distutils.file_util:write_file distutils.spawn:spawn doctest:debug_script ensurepip:_run_pip
functools:partial functools:reduce idlelib.autocomplete:AutoComplete.fetch_completions
idlelib.autocomplete:AutoComplete.get_entity idlelib.calltip:Calltip.fetch_tip
idlelib.calltip:get_entity idlelib.debugobj:ObjectTreeItem.SetText
idlelib.pyshell:ModifiedInterpreter.runcode idlelib.pyshell:ModifiedInterpreter.runcommand
idlelib.run:Executive.runcode imaplib:IMAP4_stream importlib:import_module io:FileIO io:open
itertools:starmap joblib:load lib2to3.pgen2.grammar:Grammar.loads
lib2to3.pgen2.pgen:ParserGenerator.make_label linecache:getlines logging.config:_resolve
logging:FileHandler multiprocessing.util:spawnv_passfds numpy.ctypeslib:load_library
numpy.f2py.crackfortran:_eval_length numpy.f2py.crackfortran:getlincoef
numpy.testing._private.utils:runstring numpy:fromfile numpy:load operator:attrgetter operator:call
operator:itemgetter operator:methodcaller pandas:read_pickle pip._internal.cli.main:main pip:main
pkgutil:resolve_name profile:run profile:runctx pydoc:locate pydoc:pipepager shelve:open
test.support.script_helper:assert_python_ok timeit:timeit torch._dynamo.guards:GuardBuilder.get
torch._inductor.codecache:compile_file torch.distributed.elastic.rendezvous.api:basichandlers
torch.fx.experimental.symbolic_shapes:ShapeEnv.evaluate_guards_expression
torch.fx.graph_module:_forward_from_src torch.fx.graph_module:reduce_graph_module torch.hub:load
torch.jit.unsupported_tensor_ops:execWrapper torch.jit:load
torch.package.package_importer:PackageImporter torch.serialization:load
torch.storage:UntypedStorage.from_file torch.storage:_load_from_bytes
torch.utils._config_module:ConfigModule torch.utils._config_module:ConfigModule.load_config
torch.utils.bottleneck.__main__:run_autograd_prof torch.utils.bottleneck.__main__:run_cprofile
torch.utils.collect_env:run torch.utils.cpp_extension:load_inline
torch.utils.data.datapipes.utils.decoder:basichandlers torch:compile torch:load trace:Trace.run
trace:Trace.runctx types:CodeType types:FunctionType types:MethodType unittest.mock:_importer
uuid:_get_command_stdout
"""


def modules() -> set[str]:
    """Return the modules of which any name is called dangerous."""
    return set(MODULES.split())


def names() -> list[tuple[str, str]]:
    """Return modules with names in them: those on the list, and one of each module of which all
    are."""
    pairs = {(module, name) for module, _, name in (word.partition(":") for word in NAMES.split())}
    return sorted(pairs | {(module, "run") for module in modules()})
