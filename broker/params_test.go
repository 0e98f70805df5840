package broker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/broker"
)

func params(t testing.TB, query string) *broker.Params {
	t.Helper()
	u, err := broker.ParseURL("s://host?" + query)
	require.NoError(t, err)
	return u.Params()
}

func TestParametersAreReadFromTheURLThenTheEnvironment(t *testing.T) {
	t.Setenv("BROKER_TEXT", "of the environment")
	t.Setenv("BROKER_WAIT", "2s")
	p := params(t, "text=of%20the%20URL&on=true&many=7&kind=b")
	require.Equal(t, "of the URL", p.String("text", "-"))
	require.Equal(t, 2*time.Second, p.Duration("wait", time.Minute))
	require.True(t, p.Bool("on", false))
	require.Equal(t, 7, p.Int("many", 1, 1))
	require.Equal(t, "b", p.OneOf("kind", "a", "a", "b"))
	require.Equal(t, "none", p.String("absent", "none"))
	require.Nil(t, p.TLS(false))
	require.NoError(t, p.Err())
}

func TestEverythingWrongWithParametersIsToldAtOnce(t *testing.T) {
	p := params(t, "wait=soon&on=perhaps&many=0&kind=c&twice=1&twice=2&gruop=x")
	p.Duration("wait", time.Second)
	p.Bool("on", false)
	p.Int("many", 1, 1)
	p.OneOf("kind", "a", "a", "b")
	p.String("twice", "")
	p.String("group", "")
	require.EqualError(t, p.Err(), `broker: wait: "soon" must be a positive time with its unit, as 500ms or 30s
broker: on: "perhaps" must be true or false
broker: many: "0" must be a whole number of at least 1
broker: kind: "c" must be one of a, b
broker: twice: it is given 2 times
broker: gruop: there is no such parameter; did you mean "group"?`)
}

func TestTLSIsOnWhenAskedForOrConfigured(t *testing.T) {
	require.NotNil(t, params(t, "").TLS(true))
	require.NotNil(t, params(t, "tls=true").TLS(false))
	require.Nil(t, params(t, "tls=false").TLS(true))
	require.True(t, params(t, "tls_insecure=true").TLS(false).InsecureSkipVerify)
	p := params(t, "tls_ca=/no/such/file&tls_cert=/no/such/file")
	require.NotNil(t, p.TLS(false))
	require.ErrorContains(t, p.Err(), "tls_ca: ")
	require.ErrorContains(t, p.Err(), "tls_cert: ")
}
