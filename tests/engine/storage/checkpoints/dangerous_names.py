"""Names that other scanners of pickles call dangerous, copied as data, and those of their bypasses.

Sources: picklescan 1.0.5 (`scanner._unsafe_globals`), fickling 0.1.12 (`fickle.UNSAFE_IMPORTS`,
`analysis.UnsafeImportsML`), modelscan 0.8.8 (`DEFAULT_SETTINGS["unsafe_globals"]`); the last list
is of names in published advisories on ways past these scanners.
"""

from __future__ import annotations

PICKLESCAN_MODULES = """
_aix_support _osx_support _pickle _pyrepl aiohttp asyncio bdb cProfile commands ctypes
distutils.file_util httplib nt numpy.f2py numpy.testing._private.utils os pdb pickle pip
posix profile pty pydoc requests.api runpy shutil socket ssl subprocess sys test timeit
urllib.request uuid venv webbrowser
"""
FICKLING_MODULES = """
__builtin__ __builtins__ _aix_support _ctypes _frozen_importlib _frozen_importlib_external
_imp _operator _osx_support _pickle _posixsubprocess _signal _sqlite3 _thread aiohttp
asyncio atexit bdb builtins cProfile cloudpickle code codeop commands compile compileall
ctypes difflib dill distutils doctest ensurepip eval exec filecmp fileinput ftplib
functools gc glob http httplib idlelib imaplib importlib inspect joblib lib2to3 linecache
logging marshal mmap multiprocessing nntplib nt numpy.distutils numpy.f2py operator os pdb
pexpect pickle pip pkgutil platform poplib posix profile pty py_compile pydoc requests
runpy select selectors shelve shutil signal site smtplib socket socketserver sqlite3 ssl
subprocess sys syslog tarfile telnetlib tempfile test threading timeit torch._dynamo
torch._inductor torch.compile torch.hub torch.jit trace types unittest urllib urllib2 uuid
venv webbrowser xmlrpc zipfile zipimport
"""
MODELSCAN_MODULES = """
_pickle aiohttp.client asyncio bdb httplib nt os pdb pickle posix pty requests.api runpy
shutil socket subprocess sys webbrowser
"""
PICKLESCAN_NAMES = """
__builtin__:apply __builtin__:breakpoint __builtin__:compile __builtin__:eval
__builtin__:exec __builtin__:getattr __builtin__:open _io:FileIO _operator:attrgetter
_operator:itemgetter _operator:methodcaller builtins:apply builtins:breakpoint
builtins:compile builtins:eval builtins:exec builtins:getattr builtins:open
cloudpickle.cloudpickle:_builtin_type cloudpickle.cloudpickle:_function_setstate
cloudpickle.cloudpickle:_make_cell cloudpickle.cloudpickle:_make_empty_cell
cloudpickle.cloudpickle:_make_function cloudpickle.cloudpickle:subimport
code:InteractiveInterpreter.runcode doctest:debug_script ensurepip:_run_pip
functools:partial idlelib.autocomplete:AutoComplete.fetch_completions
idlelib.autocomplete:AutoComplete.get_entity idlelib.calltip:Calltip.fetch_tip
idlelib.calltip:get_entity idlelib.debugobj:ObjectTreeItem.SetText
idlelib.pyshell:ModifiedInterpreter.runcode idlelib.pyshell:ModifiedInterpreter.runcommand
idlelib.run:Executive.runcode imaplib:IMAP4_stream lib2to3.pgen2.grammar:Grammar.loads
lib2to3.pgen2.pgen:ParserGenerator.make_label logging:FileHandler operator:attrgetter
operator:itemgetter operator:methodcaller pkgutil:resolve_name
torch._dynamo.guards:GuardBuilder.get torch._inductor.codecache:compile_file
torch.fx.experimental.symbolic_shapes:ShapeEnv.evaluate_guards_expression
torch.jit.unsupported_tensor_ops:execWrapper torch.serialization:load
torch.utils._config_module:ConfigModule.load_config
torch.utils.bottleneck.__main__:run_autograd_prof
torch.utils.bottleneck.__main__:run_cprofile torch.utils.collect_env:run
torch.utils.data.datapipes.utils.decoder:basichandlers trace:Trace.run trace:Trace.runctx
types:CodeType
"""
FICKLING_NAMES = """
_io:FileIO _io:open io:FileIO io:open numpy.testing._private.utils:runstring
torch.distributed.elastic.rendezvous.api:basichandlers torch.storage:_load_from_bytes
torch.utils._config_module:ConfigModule torch:compile torch:load
"""
MODELSCAN_NAMES = """
__builtin__:__import__ __builtin__:apply __builtin__:breakpoint __builtin__:compile
__builtin__:eval __builtin__:exec __builtin__:getattr __builtin__:open builtins:__import__
builtins:apply builtins:breakpoint builtins:compile builtins:eval builtins:exec
builtins:getattr builtins:open operator:attrgetter
"""
BYPASSES = """
_io:FileIO _pickle:loads _osx_support:_read_output _aix_support:_read_cmd_output
asyncio.unix_events:_UnixSubprocessTransport._start cProfile:run cProfile:runctx
ctypes:CDLL cloudpickle:loads dill:loads distutils.file_util:write_file
distutils.spawn:spawn doctest:debug_script ensurepip:_run_pip functools:reduce
idlelib.pyshell:ModifiedInterpreter.runcommand importlib:import_module joblib:load
lib2to3.pgen2.grammar:Grammar.loads linecache:getlines logging.config:_resolve
multiprocessing.util:spawnv_passfds numpy.f2py.crackfortran:getlincoef
numpy.f2py.crackfortran:_eval_length numpy.testing._private.utils:runstring
numpy.ctypeslib:load_library numpy:load numpy:fromfile pandas:read_pickle pip:main
pip._internal.cli.main:main pkgutil:resolve_name profile:run profile:runctx pydoc:locate
pydoc:pipepager shelve:open test.support.script_helper:assert_python_ok timeit:timeit
torch._dynamo.guards:GuardBuilder.get torch.fx.graph_module:_forward_from_src
torch.fx.graph_module:reduce_graph_module torch.hub:load torch.jit:load
torch.jit.unsupported_tensor_ops:execWrapper torch.package.package_importer:PackageImporter
torch.storage:UntypedStorage.from_file torch.utils.bottleneck.__main__:run_cprofile
torch.utils.collect_env:run torch.utils.cpp_extension:load_inline trace:Trace.run
types:FunctionType types:CodeType types:MethodType unittest.mock:_importer
uuid:_get_command_stdout code:InteractiveInterpreter.runcode copyreg:__newobj__
copyreg:__newobj_ex__ copyreg:add_extension builtins:map builtins:filter builtins:type
builtins:vars builtins:setattr builtins:globals itertools:starmap operator:call
"""


def modules() -> set[str]:
    """Return the modules of which any name is called dangerous."""
    return set(f"{PICKLESCAN_MODULES} {FICKLING_MODULES} {MODELSCAN_MODULES}".split())


def names() -> list[tuple[str, str]]:
    """Return modules with names in them: those on the lists, and one of each module of which all
    are."""
    listed = f"{PICKLESCAN_NAMES} {FICKLING_NAMES} {MODELSCAN_NAMES} {BYPASSES}".split()
    pairs = {(module, name) for module, _, name in (word.partition(":") for word in listed)}
    return sorted(pairs | {(module, "run") for module in modules()})
