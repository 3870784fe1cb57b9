#include "server/config.h"

#include <grp.h>
#include <unistd.h>

#include <cstdlib>
#include <map>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/default_paths.h"
#include "runtime/base/files.h"
#include "runtime/base/status_macros.h"
#include "server/config_settings.h"
#include "toml++/toml.h"

namespace hone {
namespace {

constexpr char kDefaultFile[] = "/etc/honed/config.toml";

// A setting's text and where it was written, for messages and --print-config.
struct Given {
  std::string text;
  std::string origin;
};
using GivenSettings = std::map<std::string, Given>;  // by setting name

struct CommandLine {
  GivenSettings settings;
  std::string file;
  bool check = false;
  bool print = false;
};

ConfigOutcome Exit(int code, std::string text) {
  ConfigOutcome outcome;
  outcome.exit_code = code;
  outcome.text = std::move(text);
  return outcome;
}

// Returns an outcome when the command line ends the matter: help, version, or a mistake.
std::optional<ConfigOutcome> ReadCommandLine(const std::vector<std::string>& arguments,
                                             CommandLine& line) {
  CLI::App app("honed: compiles, tunes, keeps and serves CUDA kernels", "honed");
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.set_version_flag("--version", "honed " HONE_VERSION, "Print the version and exit");
  app.add_option("--config", line.file,
                 absl::StrCat("Settings file (TOML); default: ", kDefaultFile))
      ->type_name("FILE");
  app.add_flag("--check-config", line.check, "Check the settings and exit");
  app.add_flag("--print-config", line.print, "Print the settings in force, with origins, and exit");
  std::map<std::string, std::string> values;
  for (const Setting& setting : Settings()) {
    app.add_option("--" + setting.name, values[setting.name],
                   absl::StrCat(setting.help, " [", setting.variable(), "]"))
        ->type_name(setting.placeholder);
  }
  app.footer(
      "Every setting can also be given by the variable in brackets or in the settings file "
      "(cache_dir = \"/path\"). Flags win over variables, variables over the file.");
  try {
    // CLI11 takes its arguments last first.
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    return Exit(0, app.help());
  } catch (const CLI::CallForVersion&) {
    return Exit(0, "honed " HONE_VERSION "\n");
  } catch (const CLI::ParseError& error) {
    return Exit(kExitUsage, absl::StrCat("honed: ", error.what(), "; see honed --help\n"));
  }
  for (const Setting& setting : Settings()) {
    if (app.count("--" + setting.name) > 0) {
      line.settings[setting.name] = {values[setting.name], "--" + setting.name};
    }
  }
  return std::nullopt;
}

GivenSettings ReadVariables(const ConfigEnvironment& environment) {
  GivenSettings given;
  for (const Setting& setting : Settings()) {
    const auto value = environment.variable(setting.variable());
    // An empty variable is how people unset one in a service file.
    if (value.has_value() && !value->empty()) {
      given[setting.name] = {*value, setting.variable()};
    }
  }
  return given;
}

std::string TomlText(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return *text;
  if (const auto number = node.value_exact<int64_t>()) return absl::StrCat(*number);
  return "";
}

absl::StatusOr<GivenSettings> ReadFileSettings(const std::string& file) {
  HONE_ASSIGN_OR_RETURN(const std::string content, ReadFile(file, 1 << 20));
  toml::table table;
  try {
    table = toml::parse(content, file);
  } catch (const toml::parse_error& error) {
    return absl::InvalidArgumentError(absl::StrCat(file, ":", error.source().begin.line, ":",
                                                   error.source().begin.column, ": ",
                                                   std::string(error.description())));
  }
  GivenSettings given;
  for (const auto& [key, node] : table) {
    const std::string origin = absl::StrCat(file, ":", node.source().begin.line);
    const Setting* known = nullptr;
    std::vector<std::string> keys;
    for (const Setting& setting : Settings()) {
      keys.push_back(setting.key());
      if (setting.key() == key.str()) known = &setting;
    }
    if (known == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(origin, ": '", std::string(key.str()),
                                                     "' is not a setting; there are ",
                                                     absl::StrJoin(keys, ", ")));
    }
    // 0o660 and 660 would both arrive as decimal numbers here.
    const bool wants_text = known->name == "socket-mode";
    if (!node.is_string() && (wants_text || !node.is_integer())) {
      return absl::InvalidArgumentError(
          absl::StrCat(origin, ": ", known->key(), " must be a text in quotes",
                       wants_text ? ", for instance \"0660\"" : " or a whole number"));
    }
    given[known->name] = {TomlText(node), origin};
  }
  return given;
}

std::string DefaultKernels(const std::string& executable) {
  const std::string directory = DirectoryName(executable);
  for (const char* near : {"../kernels", "../share/hone/kernels", "../../kernels"}) {
    auto path = RealPath(JoinPath(directory, near));
    if (path.ok() && IsDirectory(*path)) return *path;
  }
  return "";
}

void SetDefaults(const ConfigEnvironment& environment, DaemonConfig& config) {
  config.listen = "unix:" + DefaultListenSocketPath();
  config.kernels_dir = DefaultKernels(environment.executable);
  const auto cache_home = environment.variable("XDG_CACHE_HOME");
  const auto home = environment.variable("HOME");
  if (cache_home.has_value() && !cache_home->empty() && cache_home->front() == '/') {
    config.cache_dir = JoinPath(*cache_home, "hone");
  } else if (home.has_value() && !home->empty() && home->front() == '/') {
    config.cache_dir = JoinPath(*home, ".cache/hone");
  }
}

std::string PrintConfig(const DaemonConfig& config, const GivenSettings& given) {
  std::string text;
  for (const Setting& setting : Settings()) {
    const auto from = given.find(setting.name);
    absl::StrAppend(&text, setting.key(), " = \"", setting.print(config), "\"  # ",
                    from == given.end() ? "default" : from->second.origin, "\n");
  }
  return text;
}

}  // namespace

std::string DaemonConfig::socket_path() const { return listen.substr(5); }

ConfigEnvironment ConfigEnvironment::OfProcess() {
  return {.variable = [](const std::string& name) -> std::optional<std::string> {
            const char* value = std::getenv(name.c_str());
            if (value == nullptr) return std::nullopt;
            return value;
          },
          .executable = ExecutablePath(),
          .default_file = kDefaultFile};
}

ConfigOutcome LoadConfig(const std::vector<std::string>& arguments,
                         const ConfigEnvironment& environment) {
  CommandLine line;
  if (auto end = ReadCommandLine(arguments, line)) return *std::move(end);

  const bool named = !line.file.empty() || environment.variable("HONE_CONFIG").has_value();
  std::string file = line.file;
  if (file.empty()) file = environment.variable("HONE_CONFIG").value_or(environment.default_file);
  GivenSettings given = line.settings;
  given.merge(ReadVariables(environment));
  if (named || PathExists(file)) {
    auto from_file = ReadFileSettings(file);
    if (!from_file.ok()) {
      return Exit(kExitConfig, absl::StrCat("honed: ", from_file.status().message(), "\n"));
    }
    given.merge(*std::move(from_file));
  }

  ConfigOutcome outcome;
  SetDefaults(environment, outcome.config);
  for (const Setting& setting : Settings()) {
    const auto value = given.find(setting.name);
    if (value == given.end()) continue;
    const absl::Status status = setting.apply(value->second.text, outcome.config);
    if (status.ok()) continue;
    const bool flag = line.settings.count(setting.name) > 0;
    const std::string what = flag ? "" : absl::StrCat(setting.key(), " ");
    return Exit(flag ? kExitUsage : kExitConfig,
                absl::StrCat("honed: ", value->second.origin, ": ", what, "'", value->second.text,
                             "' will not do: ", status.message(), "\n"));
  }
  if (outcome.config.cache_dir.empty()) {
    return Exit(kExitConfig,
                "honed: no place for the cache: neither XDG_CACHE_HOME nor HOME is set. Give "
                "--cache-dir DIR, HONE_CACHE_DIR or cache_dir in the settings file\n");
  }
  if (line.print) return Exit(0, PrintConfig(outcome.config, given));
  if (line.check) return Exit(0, "configuration ok\n");
  return outcome;
}

absl::StatusOr<gid_t> FindGroup(const std::string& group) {
  unsigned number = 0;
  if (absl::SimpleAtoi(group, &number)) return static_cast<gid_t>(number);
  // Called before threads exist and by tests; getgrnam's static buffer is safe there.
  const struct group* entry = getgrnam(group.c_str());
  if (entry == nullptr) return absl::NotFoundError(absl::StrCat("there is no group ", group));
  return entry->gr_gid;
}

}  // namespace hone
