// What a program proves its identity with to others of its cluster. What is made of it: proto/credentials.h.
#ifndef SHOAL_PROCESS_CREDENTIAL_FILES_H_
#define SHOAL_PROCESS_CREDENTIAL_FILES_H_

#include <string>

namespace shoal {

class OptionTable;

// Paths of PEM files, or their texts; all empty: connections are in plain text, and nobody proves anything.
struct CredentialFiles {
  std::string certificate;  // the program's own, first, and those between it and an authority
  std::string key;          // its private key
  std::string authorities;  // certificates of those who may sign the certificates of others
  bool are_texts = false;   // which never change, and are in this process's memory alone

  bool empty() const { return certificate.empty() && key.empty() && authorities.empty(); }
};

// Declares --tls-cert, --tls-key and --tls-ca, which every program has; `files` must outlive the table's use.
void DeclareCredentialOptions(CredentialFiles* files, OptionTable* table);

}  // namespace shoal

#endif  // SHOAL_PROCESS_CREDENTIAL_FILES_H_
