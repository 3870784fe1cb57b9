# cmake -DOUT=file.cc -DFUNCTION=Name -DFILES=a;b -P embed_files.cmake
# Writes a C++ source with hone::Name(): the texts of the files by file name.
set(text "#include \"runtime/cpu/embedded_headers.h\"\n\nnamespace hone {\n\n")
string(APPEND text "const std::vector<EmbeddedFile>& ${FUNCTION}() {\n")
string(APPEND text "  static const auto* const files = new std::vector<EmbeddedFile>{\n")
foreach(file IN LISTS FILES)
  file(READ ${file} content)
  get_filename_component(name ${file} NAME)
  string(APPEND text "      {\"${name}\", R\"hone_text(${content})hone_text\"},\n")
endforeach()
string(APPEND text "  };\n  return *files;\n}\n\n}  // namespace hone\n")
file(WRITE ${OUT} "${text}")
