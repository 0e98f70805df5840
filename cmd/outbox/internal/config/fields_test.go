package config

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// program lists the fields of ForwarderConfig that only a program can set.
var program = map[string]bool{"Classify": true, "Middlewares": true, "Hooks": true}

// walk gives the names of a config's fields, those of structs with a dot.
func walk(t reflect.Type, prefix string) (names []string) {
	for i := range t.NumField() {
		field := t.Field(i)
		if field.Type.Kind() == reflect.Struct {
			names = append(names, walk(field.Type, prefix+field.Name+".")...)
			continue
		}
		names = append(names, prefix+field.Name)
	}
	return names
}

func TestEveryFieldOfTheForwarderIsASetting(t *testing.T) {
	t.Parallel()
	settings := map[string]Field{}
	for _, f := range Fields {
		if f.Go != "" {
			settings[f.Go] = f
		}
	}
	seen := 0
	for _, name := range walk(reflect.TypeFor[outbox.ForwarderConfig](), "") {
		if program[name] {
			continue
		}
		field, ok := settings[name]
		require.True(t, ok, "%s is no setting; add it to Fields", name)
		seen++

		// What is set arrives in the field of that name, and in no other.
		value := map[string]string{
			"URL": "host=x", "text": "x", kindBool: "true", "number": "3", "size": "3KiB", "time": "3s", "word": "continue",
		}[field.Kind()]
		var o Outbox
		require.NoError(t, field.set(target{&Process{}, &o}, value), name)
		got := reflect.ValueOf(&o.Forwarder).Elem()
		for part := range strings.SplitSeq(name, ".") {
			got = got.FieldByName(part)
		}
		require.False(t, got.IsZero(), name)
		got.SetZero()
		require.True(t, reflect.ValueOf(o.Forwarder).IsZero(), "%s sets another field", name)
	}
	require.Len(t, settings, seen, "a setting is none of the forwarder's fields")
}

func TestNamesAreUnique(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, f := range Fields {
		for _, name := range []string{f.Name, "--" + f.Flag(), f.Variable()} {
			require.False(t, seen[name], name)
			seen[name] = true
		}
		require.NotEmpty(t, f.Doc, f.Name)
		require.Regexp(t, `\.$`, f.Doc, f.Name)
		require.NotEmpty(t, f.Default+f.Example, f.Name)
		require.False(t, isServiceLink(f.Variable()), f.Name)
	}
}

// The defaults that the example shows are those that the library's documentation tells.
func TestDefaultsAreTheLibrarys(t *testing.T) {
	t.Parallel()
	documented := map[string]string{}
	for file, structs := range map[string]map[string]string{
		"forwarder_config.go": {"ForwarderConfig": ""}, "retry.go": {"RetryPolicy": "Retry."}, "schema.go": {"Schema": "Schema."},
	} {
		parsed, err := parser.ParseFile(token.NewFileSet(), "../../../../"+file, nil, parser.ParseComments)
		require.NoError(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			prefix, wanted := structs[spec.Name.Name]
			fields, ok := spec.Type.(*ast.StructType)
			if !ok || !wanted {
				return true
			}
			for _, field := range fields.Fields.List {
				text := strings.ReplaceAll(field.Doc.Text(), "\n", " ")
				if found := regexp.MustCompile(`Defaults to "?([^";]*?)"?[.;](?: |$)`).FindStringSubmatch(text); found != nil {
					documented[prefix+field.Names[0].Name] = found[1]
				}
			}
			return true
		})
	}
	compared := 0
	for _, f := range Fields {
		want, ok := documented[f.Go]
		if !ok || f.Go == "" {
			continue
		}
		want = strings.NewReplacer(" s", "s", " MiB", "MiB", " min", "m", "QuarantineKey", "quarantine").Replace(want)
		require.Equal(t, want, f.Default, f.Name)
		compared++
	}
	require.Equal(t, 17, compared, "%v", documented)
	workers, _ := Known("workers")
	require.Equal(t, "4", workers.Default)
	require.Equal(t, int32(defaultWorkers), Outbox{}.Connections()-1)
}
