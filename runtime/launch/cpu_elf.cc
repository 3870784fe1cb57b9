#include "runtime/launch/cpu_elf.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace hone {
namespace {

template <typename T>
bool ReadAt(absl::string_view bytes, uint64_t offset, T& out) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return false;
  std::memcpy(&out, bytes.data() + offset, sizeof(T));
  return true;
}

bool SectionAt(absl::string_view bytes, const Elf64_Ehdr& header, uint64_t index,
               Elf64_Shdr& section) {
  return index < header.e_shnum &&
         ReadAt(bytes, header.e_shoff + index * sizeof(Elf64_Shdr), section);
}

absl::string_view NameAt(absl::string_view bytes, const Elf64_Shdr& strings, uint32_t offset) {
  if (strings.sh_offset > bytes.size() || offset >= strings.sh_size) return "";
  absl::string_view rest = bytes.substr(strings.sh_offset, strings.sh_size).substr(offset);
  return rest.substr(0, rest.find('\0'));
}

// The function in "_ZZ<function>E<variable>": everything up to the last 'E' that a source name (its
// length first) follows.
absl::string_view EnclosingFunction(absl::string_view symbol) {
  symbol.remove_prefix(3);
  for (size_t at = symbol.rfind('E'); at != absl::string_view::npos && at > 0;
       at = symbol.rfind('E', at - 1)) {
    if (at + 1 < symbol.size() && symbol[at + 1] >= '0' && symbol[at + 1] <= '9') {
      return symbol.substr(0, at);
    }
  }
  return symbol;
}

// The header's own variables, guards of statics, and what the C runtime brings.
bool BelongsToMachinery(absl::string_view name) {
  for (absl::string_view prefix :
       {"_ZN8hone_cpu", "_ZGV", "hone_", "completed.", "__", "_DYNAMIC", "_GLOBAL_OFFSET_TABLE_"}) {
    if (absl::StartsWith(name, prefix)) return true;
  }
  return name.empty();
}

}  // namespace

absl::StatusOr<CpuElfFacts> ReadCpuElf(absl::string_view bytes) {
  Elf64_Ehdr header;
  if (!ReadAt(bytes, 0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_type != ET_DYN ||
      header.e_shentsize != sizeof(Elf64_Shdr)) {
    return absl::DataLossError(
        absl::StrCat("not a 64-bit ELF shared object (", bytes.size(), " bytes)"));
  }
  for (uint64_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr table, strings;
    if (!SectionAt(bytes, header, i, table)) break;
    if (table.sh_type != SHT_SYMTAB) continue;
    if (!SectionAt(bytes, header, table.sh_link, strings)) break;
    CpuElfFacts facts;
    std::map<absl::string_view, int64_t> shared_bytes;  // by enclosing function
    for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table.sh_size; at += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol;
      Elf64_Shdr section;
      if (!ReadAt(bytes, table.sh_offset + at, symbol)) break;
      if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT || symbol.st_size == 0) continue;
      if (!SectionAt(bytes, header, symbol.st_shndx, section)) continue;
      if ((section.sh_flags & SHF_WRITE) == 0) continue;
      // Constants that only need relocating are written by the loader alone.
      Elf64_Shdr names;
      if (!SectionAt(bytes, header, header.e_shstrndx, names)) continue;
      if (absl::StartsWith(NameAt(bytes, names, section.sh_name), ".data.rel.ro")) continue;
      const absl::string_view name = NameAt(bytes, strings, symbol.st_name);
      if (absl::StartsWith(name, "_ZZ")) {
        shared_bytes[EnclosingFunction(name)] += static_cast<int64_t>(symbol.st_size);
      } else if (!BelongsToMachinery(name)) {
        facts.device_variables.emplace_back(name);
      }
    }
    for (const auto& [function, size] : shared_bytes) {
      facts.total_shared_bytes += size;
      facts.largest_shared_bytes = std::max(facts.largest_shared_bytes, size);
    }
    return facts;
  }
  return absl::DataLossError("the shared object has no symbol table");
}

}  // namespace hone
