package config

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/watermill-outbox/watermill-outbox/internal/nearest"
)

const outboxesKey = "outboxes"

// file is what a file says.
type file struct {
	top      Layer     // for all outboxes
	outboxes []section // each for one
}

type section struct {
	at    Origin
	layer Layer
}

// reader reads a file, and collects what is wrong with it.
type reader struct {
	name   string
	lookup func(variable string) (string, bool)
	wrong  *mistakes
}

// read says whether the content is YAML at all.
func (r *reader) read(content []byte) (_ file, ok bool) {
	result := file{top: Layer{}}
	content = bytes.TrimPrefix(content, []byte("\ufeff")) // which some editors write
	tree, err := parser.ParseBytes(content, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		r.refuseSyntax(err)
		return result, false
	}
	documents := 0
	for _, document := range tree.Docs {
		switch body := document.Body.(type) {
		case nil, *ast.CommentGroupNode, *ast.NullNode:
		default:
			if documents++; documents > 1 {
				r.refuse(body, "", "there may be only one document in the file")
				continue
			}
			r.mapping(body, "", true, result.top, &result)
		}
	}
	return result, true
}

func (r *reader) refuseSyntax(err error) {
	at := Origin{File: r.name}
	text := "it is no YAML"
	var syntax yaml.Error
	if errors.As(err, &syntax) {
		text += ": " + syntax.GetMessage()
		if t := syntax.GetToken(); t != nil {
			at = r.at(t)
		}
	}
	r.wrong.add(at, "", "%s", text)
}

func (r *reader) at(t *token.Token) Origin {
	return Origin{File: r.name, Line: t.Position.Line, Column: t.Position.Column}
}

// begin is where a node begins; of a mapping without braces the tree says only where its first colon is.
func (r *reader) begin(node ast.Node) Origin {
	if pairs, ok := node.(*ast.MappingNode); ok && !pairs.IsFlowStyle {
		if i := pairs.MapRange(); i.Next() {
			return r.at(i.Key().GetToken())
		}
	}
	return r.at(node.GetToken())
}

func (r *reader) refuse(node ast.Node, key, format string, args ...any) {
	r.wrong.add(r.begin(node), key, format, args...)
}

// mapping reads settings into a layer. At the top level what is the process's may stand too, and the outboxes, which go to
// whole.
func (r *reader) mapping(node ast.Node, prefix string, top bool, layer Layer, whole *file) {
	pairs, ok := node.(ast.MapNode)
	if !ok {
		r.refuse(node, strings.TrimSuffix(prefix, "."), "it must be settings of the form name: value")
		return
	}
	seen := map[string]Origin{}
	for i := pairs.MapRange(); i.Next(); {
		key, ok := i.Key().(ast.ScalarNode)
		if !ok {
			r.refuse(i.Key(), "", "only plain names of settings are read here")
			continue
		}
		name := prefix + fmt.Sprint(key.GetValue())
		if first, twice := seen[name]; twice {
			r.refuse(key, name, "it is given twice, first in line %d", first.Line)
			continue
		}
		seen[name] = r.at(key.GetToken())
		switch {
		case top && name == outboxesKey:
			r.list(i.Value(), whole)
		case isGroup(name):
			r.mapping(i.Value(), name+".", top, layer, nil)
		default:
			r.setting(key, name, i.Value(), top, layer)
		}
	}
}

func (r *reader) setting(key ast.Node, name string, value ast.Node, top bool, layer Layer) {
	field, ok := Known(name)
	switch {
	case !ok:
		r.refuse(key, name, "there is no such setting%s", hint(name, top))
		return
	case field.Part == Program && !top:
		r.refuse(key, name, "it is for the whole process; put it at the top level")
		return
	}
	text, ok := r.scalar(name, value)
	if !ok {
		return
	}
	at := r.at(value.GetToken())
	if field.secret {
		text = r.expand(at, name, text)
	}
	layer[name] = Setting{Text: text, Origin: at}
}

// scalar gives a value as it was written.
func (r *reader) scalar(name string, value ast.Node) (string, bool) {
	switch v := value.(type) {
	case *ast.NullNode:
		r.refuse(v, name, "it has no value; leave it out for the default")
	case *ast.StringNode:
		return v.Value, true
	case *ast.LiteralNode:
		return strings.TrimSpace(v.Value.Value), true
	case *ast.TagNode:
		return r.scalar(name, v.Value)
	case *ast.AliasNode, *ast.AnchorNode:
		r.refuse(v, name, "anchors and aliases are not read; what outboxes share stands at the top level")
	case ast.ScalarNode:
		return v.GetToken().Value, true
	default:
		r.refuse(value, name, "it must be one value, not a list or a mapping")
	}
	return "", false
}

// list reads the outboxes.
func (r *reader) list(node ast.Node, whole *file) {
	sequence, ok := node.(*ast.SequenceNode)
	if !ok || len(sequence.Values) == 0 {
		r.refuse(node, outboxesKey, "it must be a list, each entry with the settings of one outbox")
		return
	}
	for _, entry := range sequence.Values {
		s := section{at: r.begin(entry), layer: Layer{}}
		r.mapping(entry, "", false, s.layer, nil)
		whole.outboxes = append(whole.outboxes, s)
	}
}

var reference = regexp.MustCompile(`\$\{[A-Za-z_][A-Za-z0-9_]*\}`)

// expand replaces ${NAME} by the environment's value, so that secrets need not stand in the file.
func (r *reader) expand(at Origin, key, text string) string {
	return reference.ReplaceAllStringFunc(text, func(match string) string {
		name := match[2 : len(match)-1]
		value, ok := r.lookup(name)
		if !ok {
			r.wrong.add(at, key, "the environment has no %s", name)
		}
		return value
	})
}

// isGroup says whether other names have this one before their dot.
func isGroup(name string) bool {
	for _, f := range Fields {
		if strings.HasPrefix(f.Name, name+".") {
			return true
		}
	}
	return false
}

// hint names the setting that was meant: one of the same name in a mapping, or the nearest.
func hint(name string, top bool) string {
	var names []string
	for _, f := range Fields {
		if f.Part == Program && !top {
			continue
		}
		names = append(names, f.Name)
		if group, last, ok := strings.Cut(f.Name, "."); ok {
			if last == name {
				return fmt.Sprintf("; did you mean %q?", f.Name)
			}
			names = append(names, group)
		}
	}
	if top {
		names = append(names, outboxesKey)
	}
	return nearest.Hint(name, names)
}
