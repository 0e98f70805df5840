package broker_test

import (
	"context"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
)

// stub is a driver that notes what it was asked to open.
type stub struct {
	schemes []string
	url     *broker.URL
	options broker.Options
}

func (s *stub) Schemes() []string { return s.schemes }

func (s *stub) Open(_ context.Context, url *broker.URL, options broker.Options) (broker.Broker, error) {
	s.url, s.options = url, options
	return nothing{}, nil
}

type nothing struct{}

func (nothing) Publisher() message.Publisher            { return nil }
func (nothing) Subscriber() (message.Subscriber, error) { return nil, broker.ErrPublishOnly }
func (nothing) Classify(error) outbox.FailureKind       { return outbox.FailureUnknown }
func (nothing) Ping(context.Context) error              { return nil }
func (nothing) Close() error                            { return nil }
func clearEnvironment(t *testing.T) {
	t.Helper()
	t.Setenv("BROKER_USER", "")
	t.Setenv("BROKER_PASSWORD", "")
}

func open(m *broker.Mux, url string, o broker.Options) error {
	_, err := m.Open(context.Background(), url, o)
	return err
}

func TestAMuxOpensByScheme(t *testing.T) {
	clearEnvironment(t)
	one, two := &stub{schemes: []string{"one", "one+tls"}}, &stub{schemes: []string{"two"}}
	m := broker.NewMux(one, two)
	require.Equal(t, []string{"one", "one+tls", "two"}, m.Schemes())
	require.NoError(t, open(m, "ONE+TLS://ann:s%40cret@a:1,[::1]:2,c/some/path?x=1", broker.Options{Group: "g"}))
	require.Nil(t, two.url)
	require.Equal(t, "one+tls", one.url.Scheme)
	require.Equal(t, []string{"a:1", "[::1]:2", "c"}, one.url.Hosts)
	require.Equal(t, "some/path", one.url.Path)
	require.Equal(t, "g", one.options.Group)
	require.Equal(t, "ann", one.options.User)
	require.Equal(t, "s@cret", one.options.Password)
	require.NotNil(t, one.options.Logger, "nil logs nothing, and is not for the drivers to look at")
	addresses, err := one.url.Addresses("99")
	require.NoError(t, err)
	require.Equal(t, []string{"a:1", "[::1]:2", "c:99"}, addresses)
}

func TestUserAndPasswordComeFromTheURLThenTheOptionsThenTheEnvironment(t *testing.T) {
	t.Setenv("BROKER_USER", "environment")
	t.Setenv("BROKER_PASSWORD", "secret of the environment")
	s := &stub{schemes: []string{"s"}}
	m := broker.NewMux(s)
	require.NoError(t, open(m, "s://host", broker.Options{}))
	require.Equal(t, "environment/secret of the environment", s.options.User+"/"+s.options.Password)
	require.NoError(t, open(m, "s://host", broker.Options{User: "option", Password: "secret of the option"}))
	require.Equal(t, "option/secret of the option", s.options.User+"/"+s.options.Password)
	require.NoError(t, open(m, "s://url@host", broker.Options{}))
	require.Equal(t, "url/secret of the environment", s.options.User+"/"+s.options.Password)
}

func TestAnUnknownSchemeListsTheKnownOnes(t *testing.T) {
	m := broker.NewMux(&stub{schemes: []string{"kafka"}}, &stub{schemes: []string{"amqp", "amqps"}})
	err := open(m, "kafak://ann:hidden@host", broker.Options{})
	var scheme *broker.SchemeError
	require.ErrorAs(t, err, &scheme)
	require.Equal(t, `broker: no driver for "kafak" URLs; known are amqp, amqps, kafka`, err.Error())
	require.ErrorContains(t, open(m, "://host", broker.Options{}), "scheme://host")
}

func TestTwoDriversForOneSchemeAreAMistakeOfTheProgram(t *testing.T) {
	require.PanicsWithValue(t, `broker: two drivers for "a" URLs`, func() {
		broker.NewMux(&stub{schemes: []string{"a"}}, &stub{schemes: []string{"b", "a"}})
	})
}

// Whatever is wrong with a URL: its password is not in the error.
func TestNoErrorHasThePassword(t *testing.T) {
	m := broker.NewMux(&stub{schemes: []string{"s"}})
	for _, url := range []string{
		"hidden", "s:/ann:hidden@host", "other://ann:hidden@host", "s://ann:hidden%zz@host", "s://ann:hid%zzden@host/%zz", "s://ann:hidden@host?a=%zz",
		"s://ann:hidden@host/\x7f", "s://ann:hidden/x@host:1", "s://ann:hidden#x@host:1", "s://ann:hidden?x@host:1", "s://ann:1/hidden@host",
		"s://ann:1?hidden@host", "s://ann:1#hidden@host", "s://ann:hidden", "s://ann:hidden,host", "s://host:1#hidden",
	} {
		err := open(m, url, broker.Options{})
		require.Error(t, err, url)
		require.NotContains(t, err.Error(), "hid", url)
	}
}

func TestAHostMustHaveANameAndAPort(t *testing.T) {
	for _, url := range []string{"s://:1", "s://a,,b", "s://a:", "s://[::1", "s://a:1:2", "s://a:0", "s://a:65536", "s://a:b", "s://", "s:///path"} {
		u, err := broker.ParseURL(url)
		if err == nil {
			_, err = u.Addresses("9")
		}
		var refused *broker.URLError
		require.ErrorAs(t, err, &refused, url)
		require.Equal(t, "host", refused.Part)
	}
}
