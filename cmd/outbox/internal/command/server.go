package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/watermill-outbox/watermill-outbox/cmd/outbox/internal/metrics"
)

const httpTimeout = 10 * time.Second

// server serves health and metrics; nil serves nothing.
type server struct {
	http  *http.Server
	ended chan struct{}
}

// serve begins to, unless the address is empty.
func serve(address string, lines []*line, measures *metrics.Metrics, logger *slog.Logger) (*server, error) {
	if address == "" {
		return nil, nil //nolint:nilnil // a nil server is one that serves nothing
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("http: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", measures.Handler())
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { readiness(lines).answer(w, r) })
	s := &server{
		http:  &http.Server{Handler: mux, ReadHeaderTimeout: httpTimeout, WriteTimeout: 2 * httpTimeout},
		ended: make(chan struct{}),
	}
	logger.Info("Serving /healthz, /readyz and /metrics", "address", listener.Addr().String())
	go func() {
		defer close(s.ended)
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("No longer serving /healthz, /readyz and /metrics", "err", err)
		}
	}()
	return s, nil
}

func (s *server) close() {
	if s == nil {
		return
	}
	_ = s.http.Close() // whoever asks may ask again
	<-s.ended
}

// verdict is whether all forwarders run and are well.
type verdict struct {
	Ready    bool          `json:"ready"`
	Outboxes []lineVerdict `json:"outboxes"`
}

type lineVerdict struct {
	Name   string `json:"name"`
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"`
}

func readiness(lines []*line) verdict {
	v := verdict{Ready: true}
	for _, l := range lines {
		one := lineVerdict{Name: l.outbox.Name, Reason: l.trouble()}
		one.Ready = one.Reason == ""
		v.Ready = v.Ready && one.Ready
		v.Outboxes = append(v.Outboxes, one)
	}
	return v
}

// trouble says why the line does not forward; "" = it does.
func (l *line) trouble() string {
	if err := l.forwarder.Health(); err != nil {
		return err.Error()
	}
	select {
	case <-l.forwarder.Running():
	default:
		return "not running yet"
	}
	if l.stopping.Load() {
		return "stopping"
	}
	return ""
}

// answer writes text, or JSON to who asks for it.
func (v verdict) answer(w http.ResponseWriter, r *http.Request) {
	status := http.StatusOK
	if !v.Ready {
		status = http.StatusServiceUnavailable
	}
	if strings.Contains(r.Header.Get("Accept"), "json") || r.URL.Query().Get("format") == "json" {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v) //nolint:errchkjson // text and truth values only
		return
	}
	w.WriteHeader(status)
	for _, one := range v.Outboxes {
		reason := "ready"
		if !one.Ready {
			reason = one.Reason
		}
		_, _ = fmt.Fprintf(w, "%s: %s\n", one.Name, reason)
	}
}
