package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// shutdownTimeout is what requests in hand get when the service stops.
const shutdownTimeout = 15 * time.Second

// runAPI takes orders until ctx is done.
func runAPI(ctx context.Context, s settings) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.addr)
	if err != nil {
		return err
	}
	s.logger.Info("Listening", "addr", listener.Addr().String())
	return serveAPI(ctx, s, listener)
}

func serveAPI(ctx context.Context, s settings, listener net.Listener) (err error) {
	db, closeDB, err := s.openDB(ctx, "api")
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer func() { err = errors.Join(err, closeDB()) }()
	orders, err := newOrders(db)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	server := &http.Server{
		Handler:           (&api{orders, s.logger}).handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      requestTimeout + 5*time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(s.logger.Handler(), slog.LevelWarn),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	// No new requests; those in hand may end.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	return server.Shutdown(ctx)
}
