// The pages of --http: /metrics, /healthz and /readyz.
//
// Threads: Start and the destructor from one. Starts civetweb's threads, which call the functions of HttpPages, also
// several at once; these must not wait for anything.
#ifndef SHOAL_METRICS_HTTP_SERVER_H_
#define SHOAL_METRICS_HTTP_SERVER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shoal {

struct HttpPages {
  std::function<std::string()> metrics;  // in Prometheus' text format
  std::function<absl::Status()> ready;   // an error says why not
};

class HttpServer {
 public:
  // Listens when it returns. `listen` is the value of --http, "ip:port"; port 0: any free port. InvalidArgument: it is
  // not an address. Unavailable: it can't be listened on. The texts name --http.
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
