# Writes files as arrays of C:
#   cmake -DOUT=texts.c -DARRAY=name -DFILES="a.h=path/a.h;..." -P TroupeEmbed.cmake
# makes `const trp__embedded name[]` (base/embedded.h), which ends with one without a name.
set(texts "")
set(rows "")
set(number 0)
foreach(file ${FILES})
  string(REGEX MATCH "^([^=]+)=(.+)$" pair "${file}")
  set(name ${CMAKE_MATCH_1})
  file(READ ${CMAKE_MATCH_2} bytes HEX)
  string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(APPEND texts "static const char text_${number}[] = {\n${bytes}0};\n")
  string(APPEND rows "    {\"${name}\", text_${number}},\n")
  math(EXPR number "${number} + 1")
endforeach()
file(WRITE ${OUT}
     "#include \"base/embedded.h\"\n\n${texts}\nconst trp__embedded ${ARRAY}[] = {\n${rows}    {0}};\n")
