// SPDX-License-Identifier: Apache-2.0
// When an installation of requirements may be used again, and which make room for others.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "agent/python_packages.h"
#include "agent/requirements_cache.h"
#include "agent/requirements_key.h"
#include "base/files.h"
#include "base/test_folder.h"

namespace stoker::agent {
namespace {

class Requirements : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(folder_ + "/" + name).parent_path());
    std::ofstream(folder_ + "/" + name) << text;
  }
  RequirementsKey key(const std::string& list,
                      const std::map<std::string, std::string>& environment = {}) const {
    write("requirements.txt", list);
    auto made = requirements_key(folder_, "requirements.txt", environment);
    EXPECT_TRUE(made.ok()) << made.error().message;
    return made.ok() ? *made : RequirementsKey{};
  }
  TestFolder own_;
  const std::string folder_ = own_.path();
};

TEST_F(Requirements, EveryFileThatAListNamesCounts) {
  const std::pair<const char*, const char*> cases[] = {
      {"-r base.txt", "base.txt"},
      {"-rbase.txt  # a comment", "base.txt"},
      {"--requirement=base.txt", "base.txt"},
      {"--no-index --constraint \"with space.txt\"", "with space.txt"},
      {"numpy\n-c \\\n  base.txt", "base.txt"},
      {"-r more/list.txt", "more/nested.txt"},  // beside the list that names it
      {"./a-1.0-py3-none-any.whl", "a-1.0-py3-none-any.whl"},
      {"a-1.0.tar.gz", "a-1.0.tar.gz"},
      {"a[extra] @ file:a-1.0.zip ; python_version > '3'", "a-1.0.zip"},
      {"wheels/a.whl[extra] --hash=sha256:00", "wheels/a.whl"},
      {"--no-index -f wheels\na", "wheels/a.whl"},
  };
  write("more/list.txt", "-r nested.txt\n");
  for (const auto& [list, file] : cases) {
    write(file, "1");
    const RequirementsKey before = key(list);
    EXPECT_TRUE(before.lasting) << list;
    EXPECT_EQ(key(list).digest, before.digest) << list;
    write(file, "2");
    EXPECT_NE(key(list).digest, before.digest) << list;
  }
}

TEST_F(Requirements, NamesOfAnIndexLast) {
  const char* list =
      "# all of these\n\nnumpy==1.26 ; python_version < '4'\ntorch>=2,<3\nx[a,b]~=1.0 --hash=sha256:00\n"
      "-i https://example.org/simple --trusted-host example.org\n--pre\nfar @ https://example.org/far.whl\n";
  EXPECT_TRUE(key(list).lasting);
  EXPECT_NE(key("numpy").digest, key("numpy\n").digest);
}

TEST_F(Requirements, WhatMayChangeUnseenDoesNotLast) {
  std::filesystem::create_directories(folder_ + "/package");
  for (const char* list :
       {".", "./package", "-e ./package", "--editable=.", "package/", "a @ file:./package", "./missing.whl",
        "-r missing.txt", "-r https://example.org/list.txt", "git+https://example.org/a.git",
        "a @ git+https://example.org/a.git@main", "--some-option-of-tomorrow x"})
    EXPECT_FALSE(key(list).lasting) << list;
}

TEST_F(Requirements, ListsThatNameEachOtherEnd) {
  write("base.txt", "-r requirements.txt\n");
  EXPECT_TRUE(key("-r base.txt\n").lasting);
  EXPECT_FALSE(key("-r .\n").lasting);
}

TEST_F(Requirements, VariablesThatPipReadsCount) {
  EXPECT_NE(key("a", {{"PIP_INDEX_URL", "x"}}).digest, key("a", {{"PIP_INDEX_URL", "y"}}).digest);
  EXPECT_FALSE(key("a", {{"PIP_CONSTRAINT", "base.txt"}}).lasting);
  EXPECT_EQ(key("a", {{"EPOCHS", "1"}}).digest, key("a", {{"EPOCHS", "2"}}).digest);
  const char* list = "-i https://${TOKEN}@example.org/\na";
  EXPECT_NE(key(list, {{"TOKEN", "1"}}).digest, key(list, {{"TOKEN", "2"}}).digest);
}

TEST_F(Requirements, WhatAnInterpreterHasIsKnownByFoldersNamesAndVersions) {
  const std::string a = folder_ + "/a", b = folder_ + "/b";
  EXPECT_EQ(package_folders(a + "\nsome warning\n\n" + b), (std::vector{a, b}));
  write("a/x-1.0.dist-info/METADATA", "");
  write("b/y-1.0.dist-info/METADATA", "");
  const std::string before = installed_in({a, b});
  write("a/x/__pycache__/x.pyc", "");
  EXPECT_EQ(installed_in({a, b}), before);
  EXPECT_NE(installed_in({b, a}), before);
  write("b/z-1.0.egg-info", "");
  EXPECT_NE(installed_in({a, b}), before);
  EXPECT_NE(installed_in({a, folder_ + "/missing"}), installed_in({a, b}));
}

TEST_F(Requirements, OldestInstallationsMakeRoomUnlessInUse) {
  const std::string block(64 * 1024, 'x');
  for (const char* name : {"oldest", "older", "new", "half.unfinished"})
    write(std::string(name) + "/data", block);
  int64_t second = 1;
  for (const char* name : {"half.unfinished", "oldest", "older", "new"}) {
    const timespec times[2] = {{second, 0}, {second, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, (folder_ + "/" + name).c_str(), times, 0), 0);
    ++second;
  }
  auto in_use = open_file(folder_ + "/oldest.lock", O_RDWR | O_CREAT);
  ASSERT_TRUE(in_use.ok());
  ASSERT_EQ(flock(in_use->get(), LOCK_SH), 0);

  auto is_there = [&](const char* name) { return std::filesystem::exists(folder_ + "/" + name); };
  evict_installations(folder_, 1 << 20);
  EXPECT_TRUE(is_there("half.unfinished") && is_there("oldest") && is_there("older") && is_there("new"));
  evict_installations(folder_, 150 * 1024);
  EXPECT_FALSE(is_there("half.unfinished") || is_there("older"));
  EXPECT_TRUE(is_there("oldest") && is_there("new"));
}

}  // namespace
}  // namespace stoker::agent
