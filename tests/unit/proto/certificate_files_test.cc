// What is said of files that can't be used.
#include "proto/certificate_files.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/credentials.h"
#include "tests/unit/proto/made_certificates.h"

namespace shoal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class CertificateFilesTest : public ::testing::Test {
 protected:
  static std::string ErrorOf(const CredentialFiles& files) {
    const absl::StatusOr<CertificateTexts> texts = ReadCertificateFiles(files);
    EXPECT_TRUE(texts.ok() || absl::IsFailedPrecondition(texts.status())) << texts.status();
    return texts.ok() ? "" : std::string(texts.status().message());
  }

  MadeAuthority authority_;
  CredentialFiles good_ = authority_.Issue("URI:spiffe://a.example/shoal/server");
};

TEST_F(CertificateFilesTest, GoodFilesAreRead) {
  const absl::StatusOr<CertificateTexts> texts = ReadCertificateFiles(good_);
  ASSERT_TRUE(texts.ok()) << texts.status();
  EXPECT_THAT(texts->identity, AllOf(HasSubstr("PRIVATE KEY"), HasSubstr("BEGIN CERTIFICATE")));
  EXPECT_THAT(texts->authorities, HasSubstr("BEGIN CERTIFICATE"));
  EXPECT_GT(texts->expires_unix_s, 0);
}

TEST_F(CertificateFilesTest, MissingFilesAreNamed) {
  CredentialFiles files = good_;
  files.key = "/nowhere/key.pem";
  EXPECT_THAT(ErrorOf(files), AllOf(HasSubstr("/nowhere/key.pem (--tls-key)"), HasSubstr("No such file")));
  files = good_;
  files.certificate = ::testing::TempDir();
  EXPECT_THAT(ErrorOf(files), AllOf(HasSubstr("--tls-cert"), HasSubstr("Is a directory")));
}

TEST_F(CertificateFilesTest, FilesOfAnotherKindAreNamed) {
  CredentialFiles files = good_;
  files.certificate = good_.key;
  EXPECT_THAT(ErrorOf(files), HasSubstr("has no certificate in PEM form"));
  files = good_;
  files.key = good_.certificate;
  EXPECT_THAT(ErrorOf(files), HasSubstr("has no private key in PEM form"));
  files = good_;
  files.authorities = good_.key;
  EXPECT_THAT(ErrorOf(files), AllOf(HasSubstr("--tls-ca"), HasSubstr("has no certificate in PEM form")));
}

TEST_F(CertificateFilesTest, AKeyOfAnotherCertificateIsRefused) {
  CredentialFiles files = good_;
  files.key = authority_.Issue("DNS:other").key;
  EXPECT_THAT(ErrorOf(files), HasSubstr("is not the key of the certificate in " + good_.certificate));
}

TEST_F(CertificateFilesTest, CertificatesAreValidNow) {
  EXPECT_THAT(ErrorOf(authority_.Issue("DNS:a", {.from_s = -7200, .until_s = -3600})), HasSubstr("has expired"));
  EXPECT_THAT(ErrorOf(authority_.Issue("DNS:a", {.from_s = 3600, .until_s = 7200})), HasSubstr("is not valid yet"));
}

TEST_F(CertificateFilesTest, NoTextOfAKeyIsInAnError) {
  CredentialFiles files = good_;
  files.key = ::testing::TempDir() + "/damaged-key.pem";
  std::ofstream(files.key) << "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n";
  EXPECT_THAT(ErrorOf(files), Not(HasSubstr("c2VjcmV0")));
  std::filesystem::remove(files.key);
}

TEST_F(CertificateFilesTest, ACertificateIsForItsNamesAndAddresses) {
  const CredentialFiles files = authority_.Issue("DNS:scheduler.example,DNS:*.b.example,IP:10.0.0.1,IP:fd00::1");
  const std::string text = ReadCertificateFiles(files)->identity;
  for (const char* const host : {"scheduler.example:7070", "x.b.example:1", "10.0.0.1:7070", "[fd00::1]:7070"}) {
    EXPECT_TRUE(CertificateIsFor(text, host)) << host;
  }
  for (const char* const host : {"other.example:7070", "10.0.0.2:7070", "x.y.b.example:1", ":7070", ""}) {
    EXPECT_FALSE(CertificateIsFor(text, host)) << host;
  }
}

TEST_F(CertificateFilesTest, AnErrorNamesTheOptionThatNamesTheFile) {
  CredentialFiles files = good_;
  files.certificate = files.key = "/nowhere";
  const auto error_of = [](const absl::StatusOr<Credentials>& loaded) {
    return std::string(loaded.status().message());
  };
  EXPECT_THAT(error_of(Credentials::Load(files, nullptr)), HasSubstr("/nowhere (--tls-cert)"));
  EXPECT_THAT(error_of(Credentials::LoadForStore(files, nullptr)), HasSubstr("/nowhere (--etcd-cert)"));
  files.authorities = "/nowhere";
  EXPECT_THAT(error_of(Credentials::LoadForStore(files, nullptr)), HasSubstr("/nowhere (--etcd-ca)"));
}

TEST_F(CertificateFilesTest, AllThreeAreNeeded) {
  EXPECT_TRUE(Credentials::Load({}, nullptr)->empty());
  CredentialFiles files = good_;
  files.key.clear();
  EXPECT_TRUE(absl::IsInvalidArgument(Credentials::Load(files, nullptr).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Credentials::LoadForStore(files, nullptr).status()));
  files = {.authorities = good_.authorities};
  EXPECT_TRUE(absl::IsInvalidArgument(Credentials::Load(files, nullptr).status()));
  EXPECT_TRUE(Credentials::LoadForStore(files, nullptr).ok());
}

}  // namespace
}  // namespace shoal
