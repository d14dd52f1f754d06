#include "process/credential_files.h"

#include "program/option_table.h"

namespace shoal {

void DeclareCredentialOptions(CredentialFiles* files, OptionTable* table) {
  table->String("tls-cert", "SHOAL_TLS_CERT", "PATH",
                "PEM file of this program's certificate (docs/security.md). Empty: plain text.", &files->certificate);
  table->String("tls-key", "SHOAL_TLS_KEY", "PATH", "PEM file of the private key of --tls-cert.", &files->key);
  table->String("tls-ca", "SHOAL_TLS_CA", "PATH",
                "PEM file of those who may sign the certificates of the other programs.", &files->authorities);
}

}  // namespace shoal
