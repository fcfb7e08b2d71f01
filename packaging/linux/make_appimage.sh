#!/bin/sh
# An AppImage of dist/dgn-viewer (make bundle): one file that runs on most Linux systems.
#   APPIMAGETOOL=/path/to/appimagetool sh packaging/linux/make_appimage.sh
# appimagetool comes from https://github.com/AppImage/appimagetool/releases. Not tested yet.
set -eu
cd "$(dirname "$0")/../.."
tool=${APPIMAGETOOL:-appimagetool}
command -v "$tool" >/dev/null || { echo "appimagetool is not here; name it with APPIMAGETOOL=…" >&2; exit 2; }
tree=build/AppDir
rm -rf "$tree"
mkdir -p "$tree/usr/lib" "$tree/usr/share/metainfo" "$tree/usr/share/applications"
cp -a dist/dgn-viewer "$tree/usr/lib/"
cp packaging/linux/dgn-viewer.desktop "$tree/"
cp packaging/linux/dgn-viewer.desktop "$tree/usr/share/applications/"
metainfo=io.github.dgn_viewer.dgn_viewer.metainfo.xml
version=$("$tree/usr/lib/dgn-viewer/dgn" --version | sed 's/[^0-9]*\([0-9.]*\).*/\1/')
sed -e "s/@VERSION@/$version/" -e "s/@DATE@/$(date -u +%Y-%m-%d)/" "packaging/linux/$metainfo.in" \
  > "$tree/usr/share/metainfo/$metainfo"
cp resources/dgn_resources/program.svg "$tree/dgn-viewer.svg"
# As the name of the file says: dgn-viewer.AppImage opens the window, a link named dgn is `dgn`.
cat > "$tree/AppRun" <<'END'
#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
case $(basename "${ARGV0:-dgn-viewer}") in dgn) program=dgn ;; *) program=dgn-viewer ;; esac
exec "$here/usr/lib/dgn-viewer/$program" "$@"
END
chmod 755 "$tree/AppRun"
mkdir -p dist
"$tool" "$tree" "dist/dgn-viewer-$(uname -m).AppImage"
