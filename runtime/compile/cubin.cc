#include "runtime/compile/cubin.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "runtime/base/clocks.h"
#include "runtime/base/sha256.h"
#include "runtime/base/status_macros.h"
#include "runtime/kernel/architecture.h"

namespace hone {
namespace {

constexpr uint16_t kMachineCuda = 190;
constexpr unsigned char kAbiCuda13 = 8;
constexpr uint32_t kFlagAcceleratedAbi7 = 0x800;  // e_flags of sm_90a before CUDA 13
constexpr int64_t kSystemSharedBytes = 1024;      // in every block's section from sm_90 on
constexpr uint32_t kSectionsMax = 200'000;

// Attributes of .nv.info: format byte, attribute byte, then a 16-bit value or length.
constexpr uint8_t kFormatSized = 4;
constexpr uint8_t kMaxThreads = 0x05;
constexpr uint8_t kRequiredThreads = 0x10;
constexpr uint8_t kFrameSize = 0x11;
constexpr uint8_t kRegisterCount = 0x2f;

absl::Status NotACubin(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("not a cubin: ", why));
}

// Reads at any offset; nullopt beyond the end.
template <typename T>
std::optional<T> ReadAt(absl::string_view bytes, uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

absl::string_view Slice(absl::string_view bytes, uint64_t offset, uint64_t size) {
  if (offset > bytes.size() || bytes.size() - offset < size) return {};
  return bytes.substr(offset, size);
}

absl::string_view StringAt(absl::string_view table, uint64_t offset) {
  if (offset >= table.size()) return {};
  const absl::string_view rest = table.substr(offset);
  const size_t end = rest.find('\0');
  return end == absl::string_view::npos ? absl::string_view() : rest.substr(0, end);
}

struct Section {
  absl::string_view name;
  Elf64_Shdr header;
  absl::string_view data;  // empty for sections without bytes in the file
};

class CubinReader {
 public:
  explicit CubinReader(absl::string_view bytes) : bytes_(bytes) {}

  absl::StatusOr<CubinInfo> Read() {
    HONE_RETURN_IF_ERROR(ReadHeader());
    HONE_RETURN_IF_ERROR(ReadSections());
    ReadSymbols();
    for (const Section& section : sections_) AddKernel(section);
    for (const Section& section : sections_) AddFacts(section);
    for (auto& [symbol, resources] : kernels_) info_.kernels.push_back(std::move(resources));
    return std::move(info_);
  }

  absl::StatusOr<std::string> CodeSha256() {
    HONE_RETURN_IF_ERROR(Read().status());
    Sha256 hash;
    const auto add = [&hash](const auto&... numbers) {
      (hash.Update(absl::StrCat(numbers, " ")), ...);
    };
    add(info_.architecture, header_.e_flags);
    for (const EntryResources& kernel : info_.kernels) {
      if (info_.kernels.size() > 1) add(kernel.symbol);
    }
    for (const Section& section : sections_) {
      const Elf64_Shdr& header = section.header;
      // Names, the compiler's command line, and what only debuggers read.
      if (header.sh_type == SHT_STRTAB || header.sh_type == SHT_NOTE ||
          absl::StrContains(section.name, "debug")) {
        continue;
      }
      add(KindOf(section.name), header.sh_type, header.sh_flags, header.sh_size, header.sh_link,
          header.sh_info, header.sh_addralign);
      if (header.sh_type == SHT_SYMTAB) {
        AddSymbols(section.data, add);
      } else {
        hash.Update(section.data);
      }
    }
    return hash.FinishHex();
  }

 private:
  // ".text.NAME": ".text".
  static absl::string_view KindOf(absl::string_view name) {
    const size_t dot = name.find('.', std::min<size_t>(name.size(), 4));
    return name.substr(0, dot);
  }

  template <typename Add>
  static void AddSymbols(absl::string_view data, const Add& add) {
    for (uint64_t i = 0; i < data.size() / sizeof(Elf64_Sym); ++i) {
      const auto symbol = *ReadAt<Elf64_Sym>(data, i * sizeof(Elf64_Sym));
      add(int{symbol.st_info}, int{symbol.st_other}, symbol.st_shndx, symbol.st_value,
          symbol.st_size);
    }
  }

  absl::Status ReadHeader() {
    const auto header = ReadAt<Elf64_Ehdr>(bytes_, 0);
    if (!header.has_value() || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) {
      return NotACubin("no ELF header");
    }
    if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB) {
      return NotACubin("not a 64-bit little-endian ELF file");
    }
    if (header->e_machine != kMachineCuda) {
      return NotACubin(absl::StrCat("ELF machine ", header->e_machine, " is not a GPU"));
    }
    header_ = *header;
    const bool cuda13 = header->e_ident[EI_ABIVERSION] >= kAbiCuda13;
    info_.sm_version =
        static_cast<int>(cuda13 ? (header->e_flags >> 8) & 0xff : header->e_flags & 0xff);
    info_.architecture = absl::StrCat("sm_", info_.sm_version);
    if (!cuda13) {
      info_.states_suffix = true;
      if ((header->e_flags & kFlagAcceleratedAbi7) != 0) info_.architecture += "a";
    }
    return absl::OkStatus();
  }

  absl::Status ReadSections() {
    if (header_.e_shentsize != sizeof(Elf64_Shdr)) return NotACubin("section header size");
    uint64_t count = header_.e_shnum;
    uint64_t names_index = header_.e_shstrndx;
    // Many sections: both numbers move into the first section header.
    const auto first = ReadAt<Elf64_Shdr>(bytes_, header_.e_shoff);
    if (!first.has_value()) return NotACubin("section headers lie beyond its end");
    if (count == 0) count = first->sh_size;
    if (names_index == SHN_XINDEX) names_index = first->sh_link;
    if (count > kSectionsMax || names_index >= count) return NotACubin("section count");
    for (uint64_t i = 0; i < count; ++i) {
      const auto header = ReadAt<Elf64_Shdr>(bytes_, header_.e_shoff + i * sizeof(Elf64_Shdr));
      if (!header.has_value()) return NotACubin("section headers lie beyond its end");
      const bool in_file = header->sh_type != SHT_NOBITS && header->sh_type != SHT_NULL;
      sections_.push_back(
          {{}, *header, in_file ? Slice(bytes_, header->sh_offset, header->sh_size) : ""});
    }
    const absl::string_view names = sections_[names_index].data;
    for (Section& section : sections_) section.name = StringAt(names, section.header.sh_name);
    return absl::OkStatus();
  }

  void ReadSymbols() {
    for (const Section& section : sections_) {
      if (section.header.sh_type != SHT_SYMTAB || section.header.sh_link >= sections_.size())
        continue;
      const absl::string_view names = sections_[section.header.sh_link].data;
      for (uint64_t i = 0; i < section.data.size() / sizeof(Elf64_Sym); ++i) {
        const auto symbol = ReadAt<Elf64_Sym>(section.data, i * sizeof(Elf64_Sym));
        symbols_.push_back(StringAt(names, symbol->st_name));
      }
      return;
    }
  }

  // Every function has a .text.NAME; only kernels have the constant bank of parameters.
  void AddKernel(const Section& section) {
    absl::string_view name = section.name;
    if (!absl::ConsumePrefix(&name, ".nv.constant0.") || name.empty()) return;
    EntryResources& resources = kernels_[std::string(name)];
    resources.symbol = std::string(name);
  }

  EntryResources* FindKernel(absl::string_view symbol) {
    const auto it = kernels_.find(std::string(symbol));
    return it == kernels_.end() ? nullptr : &it->second;
  }

  void AddFacts(const Section& section) {
    absl::string_view name = section.name;
    if (absl::ConsumePrefix(&name, ".nv.shared.")) {
      if (EntryResources* kernel = FindKernel(name); kernel != nullptr) {
        const auto bytes =
            static_cast<int64_t>(std::min<uint64_t>(section.header.sh_size, uint64_t{1} << 40));
        const bool reserved = info_.sm_version >= 90 && bytes >= kSystemSharedBytes;
        kernel->static_shared_bytes = reserved ? bytes - kSystemSharedBytes : bytes;
      }
    } else if (name == ".nv.info") {
      ReadAttributes(section.data, nullptr);
    } else if (absl::ConsumePrefix(&name, ".nv.info.")) {
      ReadAttributes(section.data, FindKernel(name));
    } else if (name == ".note.nv.tkinfo") {
      ReadToolNote(section.data);
    }
  }

  // `kernel` is nullptr for the file's own section, whose attributes name their symbol.
  void ReadAttributes(absl::string_view data, EntryResources* kernel) {
    uint64_t offset = 0;
    while (data.size() - offset >= 4) {
      const auto format = static_cast<uint8_t>(data[offset]);
      const auto attribute = static_cast<uint8_t>(data[offset + 1]);
      const uint16_t value = *ReadAt<uint16_t>(data, offset + 2);
      offset += 4;
      if (format != kFormatSized) continue;
      const absl::string_view payload = Slice(data, offset, value);
      if (payload.size() != value) return;
      offset += value;
      if (kernel != nullptr) {
        ReadKernelAttribute(attribute, payload, *kernel);
      } else {
        ReadFileAttribute(attribute, payload);
      }
    }
  }

  void ReadFileAttribute(uint8_t attribute, absl::string_view payload) {
    const auto symbol = ReadAt<uint32_t>(payload, 0);
    const auto value = ReadAt<uint32_t>(payload, 4);
    if (!symbol.has_value() || !value.has_value() || *symbol >= symbols_.size()) return;
    EntryResources* kernel = FindKernel(symbols_[*symbol]);
    if (kernel == nullptr) return;
    if (attribute == kRegisterCount) kernel->registers = static_cast<int>(*value & 0xffff);
    if (attribute == kFrameSize) kernel->local_bytes = *value;
  }

  static void ReadKernelAttribute(uint8_t attribute, absl::string_view payload,
                                  EntryResources& kernel) {
    if (attribute != kMaxThreads && attribute != kRequiredThreads) return;
    uint64_t threads = 1;
    for (uint64_t axis = 0; axis < 3; ++axis) {
      const auto extent = ReadAt<uint32_t>(payload, axis * 4);
      if (!extent.has_value() || *extent == 0 || *extent > 1024) return;
      threads *= *extent;
    }
    kernel.max_threads_per_block = static_cast<int>(std::min<uint64_t>(threads, 1024));
  }

  // The assembler's command line: "-arch sm_90a ".
  void ReadToolNote(absl::string_view data) {
    const size_t at = data.find("-arch sm_");
    if (at == absl::string_view::npos) return;
    absl::string_view text = data.substr(at + 6);
    const size_t end = text.find_first_of(absl::string_view(" \0", 2));
    text = text.substr(0, end);
    const auto parsed = ParseArchitecture(text);
    if (!parsed.ok() || parsed->version != info_.sm_version) return;
    info_.architecture = std::string(text);
    info_.states_suffix = true;
  }

  const absl::string_view bytes_;
  Elf64_Ehdr header_ = {};
  std::vector<Section> sections_;
  std::vector<absl::string_view> symbols_;
  std::map<std::string, EntryResources> kernels_;
  CubinInfo info_;
};

std::vector<std::string> Symbols(const CubinInfo& info) {
  std::vector<std::string> symbols;
  for (const EntryResources& kernel : info.kernels) symbols.push_back(kernel.symbol);
  return symbols;
}

}  // namespace

const EntryResources* CubinInfo::Find(absl::string_view symbol) const {
  for (const EntryResources& kernel : kernels) {
    if (kernel.symbol == symbol) return &kernel;
  }
  return nullptr;
}

absl::StatusOr<CubinInfo> ParseCubin(absl::string_view bytes) { return CubinReader(bytes).Read(); }

absl::StatusOr<std::string> CubinCodeSha256(absl::string_view bytes) {
  return CubinReader(bytes).CodeSha256();
}

absl::StatusOr<Artifact> PrebuiltArtifact(const std::string& bytes, const std::string& architecture,
                                          const std::vector<std::string>& symbols) {
  HONE_ASSIGN_OR_RETURN(const CubinInfo info, ParseCubin(bytes));
  HONE_ASSIGN_OR_RETURN(const Architecture wanted, ParseArchitecture(architecture));
  // A binary for sm_90a is a binary of that chip; a declared suffix may only be missing in the
  // file.
  if (wanted.cpu || wanted.ptx || wanted.version != info.sm_version ||
      (info.states_suffix && wanted.suffix == 0 && info.architecture != architecture)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the cubin was built for ", info.architecture, ", not for ", architecture));
  }
  Artifact artifact;
  for (const std::string& symbol : symbols) {
    if (info.Find(symbol) == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the cubin has no kernel '", symbol, "'; it has ", absl::StrJoin(Symbols(info), ", ")));
    }
    // A prebuilt step names its kernel by the symbol itself.
    artifact.lowered_names[symbol] = symbol;
  }
  artifact.format = ArtifactFormat::kCubin;
  artifact.bytes = bytes;
  artifact.sha256 = Sha256Hex(bytes);
  artifact.architecture = architecture;
  artifact.builder = "prebuilt";
  artifact.resources = info.kernels;
  artifact.built_at_unix_ms = UnixMillis();
  return artifact;
}

}  // namespace hone
