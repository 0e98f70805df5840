package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func TestEveryOrderHasOneEventAndOneEmail(t *testing.T) {
	url := testdb.URL(t)
	t.Setenv("DATABASE_URL", url)
	t.Setenv("BROKER_URL", "gochannel://")
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), nil, &out))
	require.Contains(t, out.String(), "one event and one email")
	for _, want := range []string{`orders +100 `, `refused +10 `, `rolled back +10 `, `events +100 `, `emails +100 `, `delivered +100 `} {
		require.Regexp(t, want, out.String())
	}

	var orders, emails, emailed, left int
	require.NoError(t, testdb.Open(t, url).QueryRow(t.Context(), `SELECT (SELECT count(*) FROM shop.orders), count(*),
		count(DISTINCT order_id) FILTER (WHERE sent_at IS NOT NULL), (SELECT count(*) FROM public.outbox) FROM shop.emails`).
		Scan(&orders, &emails, &emailed, &left))
	require.Equal(t, []int{100, 100, 100, 0}, []int{orders, emails, emailed, left})
}

func TestServeStaysUpUntilItIsStopped(t *testing.T) {
	t.Setenv("DATABASE_URL", testdb.URL(t))
	t.Setenv("BROKER_URL", "gochannel://")
	ctx, stop := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, []string{"--serve", "--orders", "10", "--addr", "127.0.0.1:0"}, writer)
		_ = writer.Close()
		ended <- err
	}()

	var shown strings.Builder
	_, err := io.CopyN(&shown, reader, 1)
	for err == nil && !strings.Contains(shown.String(), "999999") {
		_, err = io.CopyN(&shown, reader, 1)
	}
	require.NoError(t, err)
	url := regexp.MustCompile(`http://[0-9.:]+/orders`).FindString(shown.String())
	response, err := http.Post(url, "application/json", strings.NewReader(`{"customer": "alice@example.com", "cents": 4200}`))
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusCreated, response.StatusCode)
	stop()
	go func() { _, _ = io.Copy(io.Discard, reader) }()
	require.NoError(t, <-ended)
}

func TestAnswersAreJSON(t *testing.T) {
	url := testdb.URL(t)
	s := settings{databaseURL: url, logger: slog.New(slog.DiscardHandler)}
	require.NoError(t, migrate(t.Context(), s))
	db, closeDB, err := s.openDB(t.Context(), "test")
	require.NoError(t, err)
	defer func() { require.NoError(t, closeDB()) }()
	orders, err := newOrders(db)
	require.NoError(t, err)
	handler := (&api{orders, s.logger}).handler()

	for _, test := range []struct {
		request, key, body string
		status             int
		answer             string
	}{
		{"POST /orders", "a", `{"customer": "alice@example.com", "cents": 4200}`, 201, `{"id":"a","customer":"alice@example.com","cents":4200}`},
		{"POST /orders", "a", `{"customer": "alice@example.com", "cents": 4200}`, 200, `{"id":"a","customer":"alice@example.com","cents":4200}`},
		{"POST /orders", "a", `{"customer": "alice@example.com", "cents": 9}`, 409, `{"error":"another order has this idempotency key"}`},
		{"POST /orders", "b", `{"customer": "alice", "cents": 4200}`, 422, `{"error":"customer must be an email address"}`},
		{"POST /orders", "c", `{"customer": "alice@example.com", "cents": 200000}`, 402, `{"error":"the card was declined"}`},
		{"POST /orders", "d", `{"customer`, 400, `"error":"the body must be like`},
		{"GET /orders/a", "", "", 200, `{"id":"a","customer":"alice@example.com","cents":4200,"emailed":false}`},
		{"GET /orders/c", "", "", 404, `{"error":"there is no such order"}`},
		{"GET /healthz", "", "", 200, `{}`},
		{"GET /", "", "", 404, `{"error":"there is POST /orders`},
	} {
		method, path, _ := strings.Cut(test.request, " ")
		request := httptest.NewRequest(method, path, strings.NewReader(test.body))
		request.Header.Set("Idempotency-Key", test.key)
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, request)
		require.Equal(t, test.status, recorder.Code, test.request+test.body)
		require.Contains(t, recorder.Body.String(), test.answer)
		require.Equal(t, "application/json", recorder.Header().Get("Content-Type"))
	}
	var events int
	require.NoError(t, db.QueryRowContext(t.Context(), `SELECT count(*) FROM public.outbox`).Scan(&events))
	require.Equal(t, 1, events, "of the one order that was taken")
}

func TestRolesSayWhatTheyMiss(t *testing.T) {
	t.Setenv("DATABASE_URL", "")
	t.Setenv("BROKER_URL", "")
	require.ErrorContains(t, run(t.Context(), []string{"api"}, io.Discard), "api needs DATABASE_URL")
	t.Setenv("DATABASE_URL", "postgres://127.0.0.1:1/none")
	require.ErrorContains(t, run(t.Context(), []string{"forward"}, io.Discard), "forward needs BROKER_URL")
	t.Setenv("BROKER_URL", "gochannel://")
	require.ErrorContains(t, run(t.Context(), []string{"email"}, io.Discard), "email needs BROKER_URL")
	require.ErrorContains(t, run(t.Context(), []string{"fly"}, io.Discard), `no role "fly"`)
}
