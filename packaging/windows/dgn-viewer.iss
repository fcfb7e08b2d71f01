; Inno Setup 6: an installer for one user, who needs no administrator. Not tested yet: written on
; Linux, for the folder that PyInstaller makes on Windows (.github/workflows/packages.yml).
;   iscc /DVersion=0.2.0 packaging\windows\dgn-viewer.iss
#ifndef Version
  #error Say which version: iscc /DVersion=…
#endif

[Setup]
AppId={{8C6B1C0E-6E59-4C34-9C40-0D6F2B6D0E11}
AppName=dgn-viewer
AppVersion={#Version}
AppPublisher=The dgn-viewer authors
DefaultDirName={autopf}\dgn-viewer
DefaultGroupName=dgn-viewer
PrivilegesRequired=lowest
ArchitecturesAllowed=x64compatible
ArchitecturesInstallIn64BitMode=x64compatible
LicenseFile=..\..\LICENSE
SourceDir=..\..
OutputDir=dist
OutputBaseFilename=dgn-viewer-{#Version}-windows
Compression=lzma2
SolidCompression=yes
ChangesAssociations=yes
WizardStyle=modern

[Files]
Source: "dist\dgn-viewer\*"; DestDir: "{app}"; Flags: recursesubdirs ignoreversion

[Icons]
Name: "{group}\dgn-viewer"; Filename: "{app}\dgn-viewer.exe"

[Registry]
Root: HKA; Subkey: "Software\Classes\.dgn"; ValueType: string; ValueData: "dgn-viewer.session"; Flags: uninsdeletevalue
Root: HKA; Subkey: "Software\Classes\dgn-viewer.session"; ValueType: string; ValueData: "dgn-viewer session"; Flags: uninsdeletekey
Root: HKA; Subkey: "Software\Classes\dgn-viewer.session\shell\open\command"; ValueType: string; ValueData: """{app}\dgn-viewer.exe"" ""%1"""

; Runs, settings and data sets lie in %LOCALAPPDATA%\dgn-viewer, which removal leaves alone.
