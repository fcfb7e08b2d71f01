#!/bin/sh
# A disk image of dist/dgn-viewer.app, which PyInstaller makes on macOS. Not tested yet.
#   sh packaging/macos/make_dmg.sh VERSION
# It is signed ad hoc: whoever opens it the first time does so by a right click, until it is signed
# with a developer's certificate and notarised.
set -eu
version=${1:?say which version}
cd "$(dirname "$0")/../.."
staging=build/dmg
rm -rf "$staging"
mkdir -p "$staging"
cp -R dist/dgn-viewer.app "$staging/"
ln -s /Applications "$staging/Applications"
codesign --force --deep --sign - "$staging/dgn-viewer.app"
hdiutil create -volname "dgn-viewer $version" -srcfolder "$staging" -ov -format UDZO \
    "dist/dgn-viewer-$version-macos-$(uname -m).dmg"
