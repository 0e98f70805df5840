package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/ThreeDotsLabs/watermill"
)

const (
	maxBodyBytes   = 64 << 10
	requestTimeout = 10 * time.Second
)

// api is the HTTP side of orders. All its answers are JSON, errors too.
type api struct {
	orders *orders
	logger *slog.Logger
}

func (a *api) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", a.postOrder)
	mux.HandleFunc("GET /orders/{id}", a.getOrder)
	mux.HandleFunc("GET /healthz", a.health)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		a.answer(w, http.StatusNotFound, problem{"there is POST /orders, GET /orders/{id} and GET /healthz"})
	})
	return mux
}

type problem struct {
	Error string `json:"error"`
}

// postOrder takes an order. A client that got no answer asks again with the same Idempotency-Key: 201 says that the order
// was made by this request, 200 that it was by an earlier one.
func (a *api) postOrder(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	var o order
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&o); err != nil {
		a.answer(w, http.StatusBadRequest, problem{`the body must be like {"customer": "alice@example.com", "cents": 4200}`})
		return
	}
	if o.ID = r.Header.Get("Idempotency-Key"); o.ID == "" {
		o.ID = watermill.NewUUID()
	}
	if err := o.validate(); err != nil {
		a.answer(w, http.StatusUnprocessableEntity, problem{err.Error()})
		return
	}
	switch created, err := a.orders.place(ctx, o); {
	case errors.Is(err, errDeclined):
		a.answer(w, http.StatusPaymentRequired, problem{err.Error()})
	case errors.Is(err, errConflict):
		a.answer(w, http.StatusConflict, problem{err.Error()})
	case err != nil:
		a.fail(w, r, err)
	case created:
		a.answer(w, http.StatusCreated, o)
	default:
		a.answer(w, http.StatusOK, o)
	}
}

func (a *api) getOrder(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	o, emailed, err := a.orders.find(ctx, r.PathValue("id"))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		a.answer(w, http.StatusNotFound, problem{"there is no such order"})
	case err != nil:
		a.fail(w, r, err)
	default:
		a.answer(w, http.StatusOK, struct {
			order
			Emailed bool `json:"emailed"`
		}{o, emailed})
	}
}

func (a *api) health(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	if err := a.orders.db.PingContext(ctx); err != nil {
		a.fail(w, r, err)
		return
	}
	a.answer(w, http.StatusOK, struct{}{})
}

// fail keeps what went wrong for the log. The client may ask again, of what was not committed nothing is there.
func (a *api) fail(w http.ResponseWriter, r *http.Request, err error) {
	a.logger.ErrorContext(r.Context(), "Request failed", "method", r.Method, "path", r.URL.Path, "err", err)
	a.answer(w, http.StatusServiceUnavailable, problem{"try again later"})
}

func (a *api) answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		a.logger.Warn("Answer not sent", "err", err)
	}
}
