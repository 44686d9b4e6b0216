#!/bin/bash
# Installs a build into a temporary folder, moves that folder, and uses it like a user: builds a program
# through pkg-config, one through find_package, and the custom actors of docs/custom-actors.md and
# examples/custom as described there, and runs the command.
# Usage: scripts/check_install.sh BUILD_DIR     (CC names the compiler)
set -euo pipefail
build=$(realpath "$1")
source=$(realpath "$(dirname "$0")/..")
cc=${CC:-gcc}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

cmake --install "$build" --prefix "$work/first" >install.log || { cat install.log; exit 1; }
mv first moved # nothing may depend on the place that it was installed to
prefix=$work/moved

for file in include/troupe/troupe.h include/troupe/declarations.h lib/libtroupe.so lib/libtroupe.a share/man/man1/troupe.1 \
    share/bash-completion/completions/troupe share/zsh/site-functions/_troupe share/fish/vendor_completions.d/troupe.fish \
    share/troupe/cutlass/templates/abi.h share/troupe/cutlass/templates/module.cuh share/troupe/cutlass/shims/troupe_std.h; do
    [ -f "$prefix/$file" ] || { echo "not installed: $file"; exit 1; }
done
for file in bin/troupe libexec/troupe/troupe-worker; do
    [ -x "$prefix/$file" ] || { echo "not installed as a program: $file"; exit 1; }
done
if grep -rIlF "$work/first" "$prefix" || grep -rIlF "$build" "$prefix"; then
    echo "these files name the folder of the build or of the first install"
    exit 1
fi

"$prefix/bin/troupe" --version | tee version
grep -q '[0-9]\.[0-9]' version

cat >program.c <<'EOF'
#include <troupe/troupe.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    printf("program: headers %s, library %s\n", TRP_VERSION_STRING, trp_version());
    return strcmp(TRP_VERSION_STRING, trp_version()) != 0;
}
EOF

export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
cxx=$(command -v "${CXX:-g++}" || command -v clang++ || true)
cp "$source/examples/first.cpp" program.cpp

# needs_shared PROGRAM: true if it is linked to the shared library.
needs_shared() { readelf -d "$1" | grep -q 'NEEDED.*libtroupe'; }
# links NAME COMPILER SOURCE FLAGS...: links with and without --static, and with linkers that keep a library only for
# preceding references (--as-needed, the default of some systems).
links() {
    local name=$1 compiler=$2 file=$3
    shift 3
    "$compiler" "$@" "$file" $(pkg-config --cflags --libs troupe) -o "$name"
    needs_shared "$name" || { echo "$name is not linked to libtroupe.so"; exit 1; }
    LD_LIBRARY_PATH=$prefix/lib "./$name"
    "$compiler" "$@" "$file" $(pkg-config --static --cflags --libs troupe) -o "$name-static"
    if needs_shared "$name-static"; then echo "pkg-config --static has linked libtroupe.so"; exit 1; fi
    TROUPE_WORKER=$prefix/libexec/troupe/troupe-worker "./$name-static"
    rm "$name" "$name-static"
}
for as_needed in -Wl,--no-as-needed -Wl,--as-needed; do
    links in-c "$cc" program.c $as_needed
    links first-in-c "$cc" "$source/examples/first.c" $as_needed
    [ -z "$cxx" ] || links in-cpp "$cxx" program.cpp -std=c++17 $as_needed
done
[ "$(readlink "$prefix/lib/troupe/libtroupe.a")" = ../libtroupe.a ]
# Links a program fully statically, including the C library; the worker remains a separate program.
if "$cc" -static "$source/examples/first.c" $(pkg-config --static --cflags --libs troupe) -o all-static 2>static.log; then
    TROUPE_WORKER=$prefix/libexec/troupe/troupe-worker ./all-static
else
    echo "no fully static program: $(tail -n 1 static.log)"
fi

cat >CMakeLists.txt <<'EOF'
cmake_minimum_required(VERSION 3.25)
project(User LANGUAGES C CXX)
find_package(Troupe 0.1 REQUIRED)
add_executable(shared program.c)
target_link_libraries(shared PRIVATE Troupe::troupe)
add_executable(static program.c)
target_link_libraries(static PRIVATE Troupe::troupe_static)
add_executable(shared-cpp program.cpp)
target_link_libraries(shared-cpp PRIVATE Troupe::troupe)
add_executable(static-cpp program.cpp)
target_link_libraries(static-cpp PRIVATE Troupe::troupe_static)
target_compile_features(shared-cpp PRIVATE cxx_std_17)
target_compile_features(static-cpp PRIVATE cxx_std_17)
EOF
[ -n "$cxx" ] || sed -i 's/ CXX)/)/; /-cpp/d' CMakeLists.txt
{ cmake -S . -B user -G Ninja -DCMAKE_C_COMPILER="$cc" ${cxx:+-DCMAKE_CXX_COMPILER="$cxx"} -DCMAKE_PREFIX_PATH="$prefix" &&
    cmake --build user; } >user.log 2>&1 || { cat user.log; exit 1; }
for name in shared static ${cxx:+shared-cpp static-cpp}; do
    case $name in
    static*) if needs_shared user/$name; then echo "$name is linked to libtroupe.so"; exit 1; fi ;;
    esac
    TROUPE_WORKER=$prefix/libexec/troupe/troupe-worker ./user/$name
done

# block FILE N: prints the Nth block of C in a page.
block() { awk -v n="$2" '/^```/ { inside = /^```c$/ && ++count == n; next } inside' "$1"; }
block "$source/docs/custom-actors.md" 1 >axpy_actor.c
block "$source/docs/custom-actors.md" 2 >axpy.c
strict=(-std=c17 -Wall -Wextra -Wconversion -Werror)
flags=$(pkg-config --cflags troupe)
"$cc" "${strict[@]}" -shared -fPIC axpy_actor.c $flags -o axpy_actor.so
"$cc" "${strict[@]}" axpy.c $(pkg-config --cflags --libs troupe) -o axpy
LD_LIBRARY_PATH=$prefix/lib ./axpy | tee axpy.log
grep -qx 'y is 12 24 36' axpy.log

cp "$source"/examples/custom/*.[ch] .
"$cc" "${strict[@]}" -shared -fPIC scale_clamp_actor.c $flags -o scale_clamp_actor.so -ldl -lm
"$cc" "${strict[@]}" scale_clamp.c $(pkg-config --cflags --libs troupe) -o scale_clamp -lm
LD_LIBRARY_PATH=$prefix/lib ./scale_clamp ./scale_clamp_actor.so

# Runs the commands of the documentation unchanged with a linker that uses --as-needed.
mkdir lines
cd lines
cp "$source"/examples/first.c* .
block "$source/docs/custom-actors.md" 1 >axpy_actor.c
block "$source/docs/custom-actors.md" 2 >axpy.c
ln -s "$prefix" troupe
export HOME=$PWD LD_LIBRARY_PATH=$prefix/lib TROUPE_WORKER=$prefix/libexec/troupe/troupe-worker
compiler=$cc
cc() { "$compiler" -Wl,--as-needed "$@"; }
c++() { "$cxx" -Wl,--as-needed "$@"; }
while IFS= read -r line; do
    [ -n "$cxx" ] || [ "${line#c++}" = "$line" ] || continue
    echo "$line"
    eval "$line"
done < <(grep -hE '^(cc|c\+\+) ' "$source/docs/install.md" "$source/docs/custom-actors.md" "$source/docs/recipes/linking.md")
