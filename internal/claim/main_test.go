package claim_test

import (
	"testing"

	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }
