# cmake -DOUT=file.cc -DFUNCTION=Name -DFILE=text -P embed_text.cmake
# Writes a C++ source with `const char* hone::Name()` returning the file's text.
file(READ ${FILE} content)
string(CONCAT text
  "namespace hone {\n\n"
  "const char* ${FUNCTION}();\n"
  "const char* ${FUNCTION}() {\n  return R\"hone_text(${content})hone_text\";\n}\n\n"
  "}  // namespace hone\n")
file(WRITE ${OUT} "${text}")
