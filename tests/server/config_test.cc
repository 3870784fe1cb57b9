#include "server/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "runtime/base/files.h"

namespace hone {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ConfigTest : public ::testing::Test {
 protected:
  ConfigTest() : directory_(*TemporaryDirectory::Create()) { variables_["HOME"] = "/home/someone"; }

  ConfigOutcome Load(const std::vector<std::string>& arguments) {
    ConfigEnvironment environment;
    environment.variable = [this](const std::string& name) -> std::optional<std::string> {
      const auto value = variables_.find(name);
      if (value == variables_.end()) return std::nullopt;
      return value->second;
    };
    environment.executable = JoinPath(directory_.path(), "bin/honed");
    environment.default_file = JoinPath(directory_.path(), "default.toml");
    return LoadConfig(arguments, environment);
  }

  std::string File(const std::string& name, const std::string& content) {
    const std::string path = JoinPath(directory_.path(), name);
    EXPECT_TRUE(WriteNewFile(path, content).ok());
    return path;
  }

  TemporaryDirectory directory_;
  std::map<std::string, std::string> variables_;
};

TEST_F(ConfigTest, DefaultsKeepTheCacheInTheHomeDirectory) {
  const ConfigOutcome outcome = Load({});
  ASSERT_FALSE(outcome.exit_code.has_value()) << outcome.text;
  EXPECT_EQ(outcome.config.cache_dir, "/home/someone/.cache/hone");
  EXPECT_EQ(outcome.config.socket_mode, 0660u);
  EXPECT_EQ(outcome.config.device, DeviceChoice::kAuto);
}

// scenario P18
TEST_F(ConfigTest, TheStoresBoundTakesUnits) {
  EXPECT_EQ(Load({}).config.store_bytes_max, 10'000'000'000);
  const std::map<std::string, int64_t> sizes = {{"0", 0},
                                                {"67108864", 64 << 20},
                                                {"64MiB", 64 << 20},
                                                {"500MB", 500'000'000},
                                                {"2 GiB", int64_t{2} << 30},
                                                {"1TB", 1'000'000'000'000}};
  for (const auto& [text, bytes] : sizes) {
    const ConfigOutcome outcome = Load({"--store-max-bytes", text});
    ASSERT_FALSE(outcome.exit_code.has_value()) << outcome.text;
    EXPECT_EQ(outcome.config.store_bytes_max, bytes) << text;
  }
  for (const char* wrong : {"-1", "1", "1MB", "ten", "5XB", "9999999TiB", "MB", "1.5GB"}) {
    const ConfigOutcome outcome = Load({"--store-max-bytes", wrong});
    EXPECT_EQ(outcome.exit_code, kExitUsage) << wrong;
    EXPECT_THAT(outcome.text,
                AllOf(HasSubstr("--store-max-bytes"), HasSubstr(wrong), HasSubstr("16777216")));
  }
  variables_["HONE_COMPILE_LOG_BYTES"] = "64KiB";
  EXPECT_EQ(Load({}).config.compile_log_bytes, 64 << 10);
}

TEST_F(ConfigTest, XdgCacheHomeGoesBeforeHome) {
  variables_["XDG_CACHE_HOME"] = "/caches";
  EXPECT_EQ(Load({}).config.cache_dir, "/caches/hone");
}

// scenario P50
TEST_F(ConfigTest, WithoutHomeItSaysWhatToSet) {
  variables_.clear();
  const ConfigOutcome outcome = Load({});
  EXPECT_EQ(outcome.exit_code, kExitConfig);
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("--cache-dir"), HasSubstr("HONE_CACHE_DIR")));
}

// scenario P50
TEST_F(ConfigTest, FlagsWinOverVariablesOverTheFile) {
  const std::string file =
      File("c.toml", "cache_dir = \"/from/file\"\nworkers = 3\nlog_level = \"warn\"\n");
  EXPECT_EQ(Load({"--config", file}).config.cache_dir, "/from/file");
  variables_["HONE_CACHE_DIR"] = "/from/variable";
  EXPECT_EQ(Load({"--config", file}).config.cache_dir, "/from/variable");
  const ConfigOutcome outcome = Load({"--config", file, "--cache-dir", "/from/flag"});
  EXPECT_EQ(outcome.config.cache_dir, "/from/flag");
  EXPECT_EQ(outcome.config.workers, 3);
  EXPECT_EQ(outcome.config.log_level, "warn");
}

TEST_F(ConfigTest, TheDefaultFileIsReadWhenItExists) {
  File("default.toml", "workers = 7\n");
  EXPECT_EQ(Load({}).config.workers, 7);
}

TEST_F(ConfigTest, ANamedFileMustExist) {
  const ConfigOutcome outcome = Load({"--config", "/does/not/exist.toml"});
  EXPECT_EQ(outcome.exit_code, kExitConfig);
  EXPECT_THAT(outcome.text, HasSubstr("/does/not/exist.toml"));
}

TEST_F(ConfigTest, BadFlagsAreUsageErrorsThatSayWhatIsRight) {
  ConfigOutcome outcome = Load({"--workers", "many"});
  EXPECT_EQ(outcome.exit_code, kExitUsage);
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("--workers"), HasSubstr("'many'"), HasSubstr("1 to")));
  outcome = Load({"--wrokers", "1"});
  EXPECT_EQ(outcome.exit_code, kExitUsage);
  EXPECT_THAT(outcome.text, HasSubstr("--wrokers"));
  outcome = Load({"--listen", "0.0.0.0:50051"});
  EXPECT_EQ(outcome.exit_code, kExitUsage);
  EXPECT_THAT(outcome.text, HasSubstr("TLS"));
}

TEST_F(ConfigTest, BadVariablesAndFilesNameTheirPlace) {
  variables_["HONE_DEVICE"] = "tpu";
  ConfigOutcome outcome = Load({});
  EXPECT_EQ(outcome.exit_code, kExitConfig);
  EXPECT_THAT(outcome.text,
              AllOf(HasSubstr("HONE_DEVICE"), HasSubstr("'tpu'"), HasSubstr("auto, cpu, cuda")));
  variables_.erase("HONE_DEVICE");
  const std::string unknown = File("u.toml", "\ncache_size = 3\n");
  outcome = Load({"--config", unknown});
  EXPECT_EQ(outcome.exit_code, kExitConfig);
  EXPECT_THAT(outcome.text,
              AllOf(HasSubstr(unknown + ":2"), HasSubstr("cache_size"), HasSubstr("cache_dir")));
  const std::string broken = File("b.toml", "cache_dir = \n");
  EXPECT_THAT(Load({"--config", broken}).text, HasSubstr(broken + ":1"));
}

TEST_F(ConfigTest, AModeWithoutQuotesIsRefused) {
  const std::string file = File("m.toml", "socket_mode = 0o660\n");
  const ConfigOutcome outcome = Load({"--config", file});
  EXPECT_EQ(outcome.exit_code, kExitConfig);
  EXPECT_THAT(outcome.text, HasSubstr("\"0660\""));
}

TEST_F(ConfigTest, RelativePathsCountFromWhereItWasStarted) {
  const DaemonConfig config = Load({"--cache-dir", "here/../cache", "--listen", "unix:s"}).config;
  EXPECT_EQ(config.cache_dir.front(), '/');
  EXPECT_THAT(config.cache_dir, ::testing::EndsWith("/cache"));
  EXPECT_THAT(config.cache_dir, ::testing::Not(HasSubstr("..")));
  EXPECT_EQ(config.socket_path().front(), '/');
}

TEST_F(ConfigTest, ModesAreOctal) {
  EXPECT_EQ(Load({"--socket-mode", "0666"}).config.socket_mode, 0666u);
  EXPECT_EQ(Load({"--socket-mode", "0888"}).exit_code, kExitUsage);
  EXPECT_EQ(Load({"--socket-mode", "0066"}).exit_code, kExitUsage);
}

TEST_F(ConfigTest, DurationsHaveUnitsOrCountSeconds) {
  EXPECT_EQ(Load({"--compile-timeout", "5m"}).config.compile_timeout, absl::Minutes(5));
  EXPECT_EQ(Load({"--compile-timeout", "5"}).config.compile_timeout, absl::Seconds(5));
  EXPECT_EQ(Load({"--launch-timeout", "2s"}).config.launch_timeout, absl::Seconds(2));
  EXPECT_EQ(Load({"--compile-timeout", "0"}).exit_code, kExitUsage);
  EXPECT_EQ(Load({"--compile-timeout", "soon"}).exit_code, kExitUsage);
}

// scenario P08
TEST_F(ConfigTest, TheLimitOfCompilerLogsIsASetting) {
  EXPECT_EQ(Load({}).config.compile_log_bytes, 256 << 10);
  EXPECT_EQ(Load({"--compile-log-bytes", "65536"}).config.compile_log_bytes, 65536);
  for (const char* bad : {"100", "3000000", "64k"}) {
    const ConfigOutcome outcome = Load({"--compile-log-bytes", bad});
    EXPECT_EQ(outcome.exit_code, kExitUsage);
    EXPECT_THAT(outcome.text, AllOf(HasSubstr(bad), HasSubstr("4096 to 2097152 bytes")));
  }
}

TEST_F(ConfigTest, UnknownGroupsAreRefused) {
  EXPECT_EQ(Load({"--admin-group", "no-such-group-here"}).exit_code, kExitUsage);
  EXPECT_FALSE(Load({"--admin-group", "0"}).exit_code.has_value());
}

TEST_F(ConfigTest, PrintConfigTellsWhereEachSettingComesFrom) {
  variables_["HONE_WORKERS"] = "2";
  const ConfigOutcome outcome = Load({"--print-config", "--cache-dir", "/c"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("cache_dir = \"/c\"  # --cache-dir"),
                                  HasSubstr("workers = \"2\"  # HONE_WORKERS"),
                                  HasSubstr("log_level = \"info\"  # default")));
}

TEST_F(ConfigTest, PrintedConfigCanBeReadBack) {
  const std::string kernels = JoinPath(directory_.path(), "k");
  ASSERT_TRUE(MakeDirectories(kernels).ok());
  const ConfigOutcome printed =
      Load({"--print-config", "--cache-dir", "/c", "--kernels", kernels, "--listen", "unix:/s"});
  const ConfigOutcome outcome = Load({"--config", File("p.toml", printed.text)});
  ASSERT_FALSE(outcome.exit_code.has_value()) << outcome.text;
  EXPECT_EQ(outcome.config.cache_dir, "/c");
  EXPECT_EQ(outcome.config.kernels_dir, kernels);
  EXPECT_EQ(outcome.config.socket_path(), "/s");
}

TEST_F(ConfigTest, KernelsAreFoundBesideTheExecutable) {
  EXPECT_EQ(Load({}).config.kernels_dir, "");
  ASSERT_TRUE(MakeDirectories(JoinPath(directory_.path(), "bin")).ok());
  const std::string installed = JoinPath(directory_.path(), "share/hone/kernels");
  ASSERT_TRUE(MakeDirectories(installed).ok());
  EXPECT_EQ(Load({}).config.kernels_dir, installed);
  const std::string bundled = JoinPath(directory_.path(), "kernels");
  ASSERT_TRUE(MakeDirectories(bundled).ok());
  EXPECT_EQ(Load({}).config.kernels_dir, bundled);
}

TEST_F(ConfigTest, ACatalogThatIsNamedMustBeThere) {
  const std::string nowhere = JoinPath(directory_.path(), "nowhere");
  const ConfigOutcome flag = Load({"--kernels", nowhere});
  EXPECT_EQ(flag.exit_code, kExitUsage);
  EXPECT_THAT(flag.text, AllOf(HasSubstr("--kernels"), HasSubstr(nowhere),
                               HasSubstr("give a directory that exists")));
  const std::string file = File("honed.toml", "kernels = \"" + nowhere + "\"\n");
  const ConfigOutcome from_file = Load({"--config", file});
  EXPECT_EQ(from_file.exit_code, kExitConfig);
  EXPECT_THAT(from_file.text, AllOf(HasSubstr(file + ":1"), HasSubstr(nowhere)));
  variables_["HONE_KERNELS"] = file;
  EXPECT_EQ(Load({}).exit_code, kExitConfig) << "a file is no directory";
}

TEST_F(ConfigTest, HelpAndVersionExitWithZero) {
  EXPECT_EQ(Load({"--help"}).exit_code, 0);
  EXPECT_THAT(Load({"--help"}).text, AllOf(HasSubstr("--cache-dir"), HasSubstr("HONE_CACHE_DIR")));
  EXPECT_THAT(Load({"--version"}).text, HasSubstr("honed "));
  EXPECT_EQ(Load({"--check-config"}).exit_code, 0);
}

TEST_F(ConfigTest, WhenAndHowMuchToTuneIsChecked) {
  const ConfigOutcome good =
      Load({"--tune-when=idle", "--tune-memory=1073741824", "--tune-duty=25"});
  ASSERT_FALSE(good.exit_code.has_value()) << good.text;
  EXPECT_EQ(good.config.tune_when, "idle");
  EXPECT_EQ(good.config.tune_memory_bytes_max, int64_t{1} << 30);
  EXPECT_EQ(good.config.tune_duty_percent, 25);
  EXPECT_THAT(Load({"--tune-when=sometimes"}).text, HasSubstr("on_request"));
  EXPECT_THAT(Load({"--tune-memory=5"}).text, HasSubstr("1048576"));
  EXPECT_THAT(Load({"--tune-duty=0"}).text, HasSubstr("1 to 100"));
}

}  // namespace
}  // namespace hone
