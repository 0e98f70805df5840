package testdb

import (
	"context"
	"fmt"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Role makes a role without any rights, with a name that needs quoting, and gives it and the URL of the same database
// as that role. It is dropped when the test ends, with what it was granted there.
func Role(t testing.TB, databaseURL string) (name, roleURL string) {
	t.Helper()
	name, password := Random(`App-"role" `), Random("")
	quoted := pgx.Identifier{name}.Sanitize()
	execute(t, databaseURL, fmt.Sprintf(`CREATE ROLE %s LOGIN PASSWORD '%s'`, quoted, password))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
		defer cancel()
		conn, err := pgx.Connect(ctx, databaseURL)
		if err != nil {
			return // the server was killed by its test
		}
		defer func() { _ = conn.Close(ctx) }()
		if _, err := conn.Exec(ctx, fmt.Sprintf(`DROP OWNED BY %[1]s CASCADE; DROP ROLE %[1]s`, quoted)); err != nil {
			t.Error(err)
		}
	})
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(name, password)
	return name, u.String()
}
