#!/bin/bash
# Installs a build into a temporary folder, moves that folder, and uses it as a user would: a program
# through pkg-config, one through find_package, the command, and custom actors: those of
# docs/custom-actors.md and examples/custom, built as it is written there.
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

for file in include/troupe/troupe.h lib/libtroupe.so lib/libtroupe.a share/man/man1/troupe.1 \
    share/troupe/cutlass/abi.h share/troupe/cutlass/templates/module.cuh share/troupe/cutlass/include/troupe_std.h; do
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
flags=$(pkg-config --cflags --libs troupe)
"$cc" program.c $flags -o through-pkg-config
LD_LIBRARY_PATH=$prefix/lib ./through-pkg-config
flags=$(pkg-config --static --cflags --libs troupe)
"$cc" program.c ${flags/-ltroupe/-l:libtroupe.a} -o through-pkg-config-static
./through-pkg-config-static

cat >CMakeLists.txt <<'EOF'
cmake_minimum_required(VERSION 3.25)
project(User LANGUAGES C)
find_package(Troupe 0.1 REQUIRED)
add_executable(shared program.c)
target_link_libraries(shared PRIVATE Troupe::troupe)
add_executable(static program.c)
target_link_libraries(static PRIVATE Troupe::troupe_static)
EOF
{ cmake -S . -B user -G Ninja -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$prefix" &&
    cmake --build user; } >user.log 2>&1 || { cat user.log; exit 1; }
./user/shared
./user/static

# block FILE N: the Nth block of C in a page.
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
