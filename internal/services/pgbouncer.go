package services

import (
	"os/exec"
	"testing"

	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// PgBouncer gives the URL of database postgres through a PgBouncer that pools transactions, and without it. Any other
// database of the server is reached by its name. It is the real one of the environment; or one of the test's own, with a
// server of its own, where both are installed. With neither, isReal is false and both URLs are those of the server that
// testdb runs: what is right through a pooler is right without.
func PgBouncer(t testing.TB) (pooled, direct string, isReal bool) {
	t.Helper()
	if pooled = address(t, "pgbouncer"); pooled != "" {
		direct, _ = Postgres(t)
		return pooled, direct, true
	}
	if !installed("bash", "setsid", "pgbouncer", "initdb") {
		direct = testdb.Server(t).URL
		return direct, direct, false
	}
	c, err := newControlled(t, "pgbouncer")
	if err != nil {
		t.Fatal(err)
	}
	direct, err = c.address("postgres")
	if err != nil {
		t.Fatal(err)
	}
	return c.Address, direct, true
}

func installed(programs ...string) bool {
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			return false
		}
	}
	return true
}
