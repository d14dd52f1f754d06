// The pages of --http: /metrics, /healthz, /readyz, and files of the program's own.
//
// Threads: Start and the destructor from one. Starts civetweb's threads, which call the functions of HttpPages, also
// several at once; those of metrics and ready must not wait for anything, those of files for a few seconds at most.
#ifndef SHOAL_METRICS_HTTP_SERVER_H_
#define SHOAL_METRICS_HTTP_SERVER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shoal {

// What civetweb is told to listen on for `listen`, "ip:port": every address (0.0.0.0, [::]) is that of IPv4 and IPv6
// where there is IPv6, as gRPC has it with --listen. Pure.
std::string ListeningPorts(const std::string& listen, bool has_ipv6);

struct HttpFile {
  std::string path;                                      // "/page.css"
  std::string type;                                      // as in Content-Type
  std::function<absl::StatusOr<std::string>()> content;  // an error becomes 503, with its text
};

struct HttpPages {
  std::function<std::string()> metrics;  // in Prometheus' text format
  std::function<absl::Status()> ready;   // an error says why not
  std::vector<HttpFile> files = {};
};

class HttpServer {
 public:
  // Listens when it returns. `listen` is the value of --http, "ip:port"; port 0: any free port. InvalidArgument: it is
  // not an address. AlreadyExists: another process listens there. Unavailable: it can't be listened on. The texts name
  // --http.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const std::string& listen, HttpPages pages);
  ~HttpServer();  // waits for the answers under way
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // "ip:port" with the actual port.
  const std::string& address() const;

 private:
  class Parts;
  explicit HttpServer(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace shoal

#endif  // SHOAL_METRICS_HTTP_SERVER_H_
