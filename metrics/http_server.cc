#include "metrics/http_server.h"

#include <CivetServer.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "process/listen_address.h"

namespace shoal {
namespace {

constexpr char kTextType[] = "text/plain; charset=utf-8";
constexpr char kMetricsType[] = "text/plain; version=0.0.4; charset=utf-8";

// What is shown comes from this server alone, and is not kept; names in it come from users.
constexpr char kSafety[] =
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src "
    "data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
    "X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nCache-Control: no-store\r\n";

bool KernelHasIpv6() {
  const int probe = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (probe >= 0) close(probe);
  return probe >= 0;
}

void Answer(mg_connection* connection, const char* status, const char* type, const std::string& body) {
  const std::string head =
      absl::StrCat("HTTP/1.1 ", status, "\r\nContent-Type: ", type, "\r\nContent-Length: ", body.size(), "\r\n",
                   kSafety, "Connection: close\r\n\r\n");
  mg_write(connection, head.data(), head.size());
  if (std::string_view(mg_get_request_info(connection)->request_method) == "HEAD") return;
  mg_write(connection, body.data(), body.size());
}

void AnswerUnavailable(mg_connection* connection, const absl::Status& status) {
  Answer(connection, "503 Service Unavailable", kTextType, absl::StrCat(status.message(), "\n"));
}

// One page, by GET and HEAD.
class Page : public CivetHandler {
 public:
  explicit Page(std::function<void(mg_connection*)> answer) : answer_(std::move(answer)) {}

  bool handleGet(CivetServer*, mg_connection* connection) override {
    answer_(connection);
    return true;
  }
  bool handleHead(CivetServer* server, mg_connection* connection) override { return handleGet(server, connection); }

 private:
  const std::function<void(mg_connection*)> answer_;
};

}  // namespace

std::string ListeningPorts(const std::string& listen, bool has_ipv6) {
  const size_t colon = listen.rfind(':');
  const std::string_view host = std::string_view(listen).substr(0, colon);
  if (!has_ipv6 || (host != "0.0.0.0" && host != "[::]")) return listen;
  return absl::StrCat("+", listen.substr(colon + 1));
}

class HttpServer::Parts {
 public:
  // Throws CivetException.
  Parts(const std::string& listen, bool has_ipv6, HttpPages pages)
      : pages_(std::move(pages)),
        metrics_([this](mg_connection* connection) { Answer(connection, "200 OK", kMetricsType, pages_.metrics()); }),
        health_([](mg_connection* connection) { Answer(connection, "200 OK", kTextType, "ok\n"); }),
        ready_([this](mg_connection* connection) {
          const absl::Status status = pages_.ready();
          if (status.ok()) return Answer(connection, "200 OK", kTextType, "ok\n");
          AnswerUnavailable(connection, status);
        }),
        server_(std::vector<std::string>{"listening_ports", ListeningPorts(listen, has_ipv6), "num_threads", "8",
                                         "request_timeout_ms", "1000", "enable_keep_alive", "no"}) {
    server_.addHandler("/metrics$", metrics_);
    server_.addHandler("/healthz$", health_);
    server_.addHandler("/readyz$", ready_);
    for (const HttpFile& file : pages_.files) {
      files_.push_back(std::make_unique<Page>([&file](mg_connection* connection) {
        const absl::StatusOr<std::string> content = file.content();
        if (!content.ok()) return AnswerUnavailable(connection, content.status());
        Answer(connection, "200 OK", file.type.c_str(), *content);
      }));
      server_.addHandler(absl::StrCat(file.path, "$"), *files_.back());
    }
    const std::vector<int> ports = server_.getListeningPorts();
    address_ = ports.empty() ? listen : WithPort(listen, ports.front());
  }

  const std::string& address() const { return address_; }

 private:
  const HttpPages pages_;
  Page metrics_;
  Page health_;
  Page ready_;
  std::vector<std::unique_ptr<Page>> files_;
  CivetServer server_;  // last: its threads use the pages
  std::string address_;
};

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const std::string& listen, HttpPages pages) {
  if (absl::Status status = CheckListenAddress(listen, "--http"); !status.ok()) return status;
  // Debian 12 compiles civetweb without it, Debian 13 with it.
  const bool library_has_ipv6 = mg_check_feature(MG_FEATURES_IPV6) != 0;
  if (listen.front() == '[' && !library_has_ipv6) {
    return absl::InvalidArgumentError(
        absl::StrCat("can't listen on ", listen,
                     ": the civetweb of this machine has no IPv6 (that of Debian 13 has); give an IPv4 address, or "
                     "0.0.0.0 for all of them, with --http IP:PORT"));
  }
  const bool has_ipv6 = library_has_ipv6 && KernelHasIpv6();
  try {
    return std::unique_ptr<HttpServer>(new HttpServer(std::make_unique<Parts>(listen, has_ipv6, std::move(pages))));
  } catch (const CivetException& error) {
    return CannotListen(listen, "--http");
  }
}

HttpServer::HttpServer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
HttpServer::~HttpServer() = default;
const std::string& HttpServer::address() const { return parts_->address(); }

}  // namespace shoal
