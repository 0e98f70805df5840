package outbox_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(text)
}

// TestReadmeShowsCodeThatCompiles: its Go blocks are taken from the example, which runs.
func TestReadmeShowsCodeThatCompiles(t *testing.T) {
	example := readFile(t, "example_test.go")
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(readFile(t, "README.md"), -1)
	require.NotEmpty(t, blocks)
	for _, block := range blocks {
		require.Contains(t, example, block[1])
	}
}

// notOurs are names in the README that belong to others.
var notOurs = map[string]bool{"ConnPool": true, "MaxConns": true, "RequiredAcks": true, "Statement": true}

// TestReadmeNamesWhatExists looks up every name in backquotes that looks like an exported one.
func TestReadmeNamesWhatExists(t *testing.T) {
	text := regexp.MustCompile("(?s)```.*?```").ReplaceAllString(readFile(t, "README.md"), "") + readFile(t, "CHANGELOG.md")
	names := exportedNames(t)
	for _, quoted := range regexp.MustCompile("`([A-Z][a-z][A-Za-z]*(?:\\.[A-Z][A-Za-z]+)?)").FindAllStringSubmatch(text, -1) {
		for name := range strings.SplitSeq(quoted[1], ".") {
			require.True(t, names[name] || notOurs[name], "there is no %s", name)
		}
	}
}

func TestReadmeLinksToFilesThatExist(t *testing.T) {
	for _, link := range regexp.MustCompile(`\]\(([^)#]+)`).FindAllStringSubmatch(readFile(t, "README.md"), -1) {
		if !strings.Contains(link[1], "://") {
			require.FileExists(t, link[1])
		}
	}
}

// exportedNames are the package's exported identifiers, fields and methods included.
func exportedNames(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	names := map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				names[n.Name.Name] = true
				return false
			case *ast.TypeSpec:
				names[n.Name.Name] = true
			case *ast.ValueSpec:
				for _, ident := range n.Names {
					names[ident.Name] = true
				}
			case *ast.Field:
				for _, ident := range n.Names {
					names[ident.Name] = true
				}
			}
			return true
		})
	}
	return names
}
