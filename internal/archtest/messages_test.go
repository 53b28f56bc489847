// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// readsText lists the expressions that decide by the text of a message, by the function that contains them, each with the reason why no type,
// code or field takes its place.
var readsText = map[string]string{
	`edge/kube.isDenial: strings.Contains(text, "admission webhook ")`:                     "the webhook chooses the code and the reason of its denial",
	`edge/kube.isDenial: strings.Contains(text, " denied the request")`:                    "the webhook chooses the code and the reason of its denial",
	`edge/kube.isUncalledWebhook: strings.Contains(err.Error(), "failed calling webhook")`: "an InternalError without a cause",
	`edge/kube.IsOtherUID: strings.Contains(err.Error(), "UID in precondition")`:           "a Conflict like any other, without a cause",
	`edge/kube.isQuota: strings.Contains(text, words)`:                                     "ResourceQuota and LimitRange add no cause to Forbidden",
	`edge/kube.reasonOf: strings.Contains(text, exceededQuota)`:                            "ResourceQuota adds no cause to Forbidden",
	`edge/kube.reasonOfCode: strings.Contains(status.Message, "more than one PodDisruptionBudget")`: "an error with code 500 " +
		"without a reason or a cause",
	`edge/kube/projection.problemOf: strings.Contains(c.Message, "decrease memory limits")`: "the kubelet has one reason for all failed resizes",
	`edge/kube/projection.problemOf: strings.Contains(c.Message, "below current usage")`:    "the kubelet has one reason for all failed resizes",

	`core/explanation.conditions: strings.Contains(line, c.Message)`: "prints no text twice, whatever it says",

	`edge/prom/survey.isLimit: strings.Contains(detail, part)`:                         "each server reports limits with its own codes and types",
	`edge/prom/survey.isWrongPath: strings.Contains(detail, "unsupported path")`:       "VictoriaMetrics has status 400 for all wrong requests",
	`edge/prom/survey.isWrongPath: strings.Contains(detail, "unsupported URL")`:        "VictoriaMetrics has status 400 for all wrong requests",
	`edge/prom/survey.isWrongPath: strings.Contains(detail, "cannot parse accountID")`: "VictoriaMetrics has status 400 for all wrong requests",
}

// texts finds what decides by a message: the text of an error, of the reason of a decision, or of a condition, event, status or container
// state of Kubernetes. It follows messages through variables, parameters and fields, whoever sets them, and through functions that get an
// error or a message. It does not follow pointers, other results of functions with parameters, calls through interfaces, and function values.
type texts struct {
	*source
	holds map[types.Object]bool // variables, parameters and fields that hold a message somewhere, and methods that return one
	grown bool                  // whether this reading has found one more
}

// isText reports whether a value of a type is a text or contains some. A text with a named type is a code.
func isText(t types.Type) bool {
	switch t := types.Unalias(t).(type) {
	case *types.Basic:
		return t.Info()&types.IsString != 0 || t.Kind() == types.Byte
	case interface{ Elem() types.Type }: // of a pointer, slice, array or map
		return isText(t.Elem())
	case *types.Tuple:
		return slices.ContainsFunc(slices.Collect(t.Variables()), func(v *types.Var) bool { return isText(v.Type()) })
	}
	return false
}

func isError(t types.Type) bool {
	face, _ := types.Universe.Lookup("error").Type().Underlying().(*types.Interface)
	return t != nil && t != types.Typ[types.UntypedNil] && types.Implements(t, face)
}

// isMessage reports whether an expression is a message or contains one.
func (x *texts) isMessage(e ast.Expr) bool {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return x.holds[x.named(e)]
	case *ast.SelectorExpr:
		return x.holds[x.named(e)] || isText(x.info.TypeOf(e)) && x.isMessageOf(e)
	case *ast.BinaryExpr:
		return e.Op == token.ADD && (x.isMessage(e.X) || x.isMessage(e.Y))
	case *ast.IndexExpr:
		return x.isMessage(e.X)
	case *ast.SliceExpr:
		return x.isMessage(e.X)
	case *ast.CompositeLit:
		return isText(x.info.TypeOf(e)) && slices.ContainsFunc(e.Elts, x.isMessage)
	case *ast.CallExpr:
		method, ok := e.Fun.(*ast.SelectorExpr)
		return ok && (x.isMessageOf(method) || x.holds[x.named(method)]) || isText(x.info.TypeOf(e)) &&
			slices.ContainsFunc(e.Args, func(a ast.Expr) bool { return x.isMessage(a) || isError(x.info.TypeOf(a)) })
	}
	return false
}

// isMessageOf reports whether a field or method is the message of its owner.
func (x *texts) isMessageOf(e *ast.SelectorExpr) bool {
	switch owner := x.info.TypeOf(e.X); e.Sel.Name {
	case "Message":
		return true
	case "Error":
		return isError(owner)
	case "Note":
		return strings.HasSuffix(owner.String(), "k8s.io/api/events/v1.Event")
	case "Text", "String":
		return owner != nil && strings.HasSuffix(owner.String(), "/internal/core/decision.Reason")
	}
	return false
}

// named returns the variable, field or function that an expression names.
func (x *texts) named(e ast.Expr) types.Object {
	switch e := e.(type) {
	case *ast.Ident:
		return x.info.ObjectOf(e)
	case *ast.SelectorExpr:
		return x.info.ObjectOf(e.Sel)
	}
	return nil
}

// hold notes that a variable, parameter or field holds a value, or that a method returns it, if it is a message.
func (x *texts) hold(o types.Object, value ast.Expr) {
	if v, ok := o.(*types.Var); ok && isText(v.Type()) {
		o = v.Origin()
	} else if f, ok := o.(*types.Func); !ok || !isText(f.Signature().Results()) {
		return
	}
	if !x.holds[o] && x.isMessage(value) {
		x.holds[o] = true
		x.grown = true
	}
}

// follow notes what the parts of a statement, expression or method hold.
func (x *texts) follow(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.AssignStmt:
		for i, to := range n.Lhs {
			x.hold(x.named(to), n.Rhs[min(i, len(n.Rhs)-1)])
		}
	case *ast.ValueSpec:
		for i, value := range n.Values {
			x.hold(x.named(n.Names[i]), value)
		}
	case *ast.RangeStmt:
		x.hold(x.named(n.Key), n.X)
		x.hold(x.named(n.Value), n.X)
	case *ast.KeyValueExpr:
		x.hold(x.named(n.Key), n.Value)
	case *ast.CompositeLit:
		if t, ok := x.info.TypeOf(n).Underlying().(*types.Struct); ok {
			for i, e := range n.Elts { // a pair of key and value is no message
				x.hold(t.Field(i), e)
			}
		}
	case *ast.CallExpr:
		if f, ok := x.named(n.Fun).(*types.Func); ok && f.Signature().Params().Len() > 0 {
			for i, a := range n.Args {
				x.hold(f.Signature().Params().At(min(i, f.Signature().Params().Len()-1)), a)
			}
		}
	case *ast.FuncDecl:
		if n.Recv != nil && n.Type.Params.NumFields() == 0 && len(n.Body.List) == 1 {
			if r, ok := n.Body.List[0].(*ast.ReturnStmt); ok && len(r.Results) == 1 {
				x.hold(x.named(n.Name), r.Results[0])
			}
		}
	}
	return true
}

// decides lists the functions that look for something in a text, by the package and the beginning of the name.
var decides = regexp.MustCompile(`^((strings|bytes)\.(Contains|HasPrefix|HasSuffix|EqualFold|Index|LastIndex|Count|Cut)|` +
	`slices\.(Contains|Index|BinarySearch)|(regexp|path|filepath)\.(Match|Find)|strconv\.(Parse|Atoi|Unquote)|fmt\.Sscan|json\.Unmarshal)`)

// isDecision reports whether a statement or expression decides by a message. Two messages may be compared, to see that a message has changed,
// and a message may be empty.
func (x *texts) isDecision(n ast.Node) bool {
	isOther := func(e ast.Expr) bool {
		t := x.info.Types[e]
		return !t.IsNil() && !x.isMessage(e) && (t.Value == nil || t.Value.ExactString() != `""`)
	}
	switch n := n.(type) {
	case *ast.CallExpr:
		f, ok := x.named(n.Fun).(*types.Func)
		return ok && f.Pkg() != nil && decides.MatchString(f.Pkg().Name()+"."+f.Name()) && slices.ContainsFunc(n.Args, x.isMessage)
	case *ast.BinaryExpr:
		return slices.Contains([]token.Token{token.EQL, token.NEQ, token.LSS, token.GTR}, n.Op) && (x.isMessage(n.X) && isOther(n.Y) || x.isMessage(n.Y) && isOther(n.X))
	case *ast.SwitchStmt:
		return n.Tag != nil && x.isMessage(n.Tag)
	case *ast.IndexExpr:
		_, isMap := x.info.TypeOf(n.X).Underlying().(*types.Map)
		return isMap && x.isMessage(n.Index)
	}
	return false
}

// decisions returns what decides by a message in files, by function and expression as in readsText.
func decisions(s *source, files []*ast.File) map[string][]token.Position {
	x := &texts{source: s, holds: map[types.Object]bool{}, grown: true}
	for x.grown {
		x.grown = false
		for _, f := range files {
			ast.Inspect(f, x.follow)
		}
	}
	found := map[string][]token.Position{}
	for _, f := range files {
		for _, d := range f.Decls {
			name := packageOf(s.set.Position(f.Package).Filename)
			if function, ok := d.(*ast.FuncDecl); ok {
				name += "." + function.Name.Name
			}
			ast.Inspect(d, func(n ast.Node) bool {
				if !x.isDecision(n) {
					return true
				}
				e, _ := n.(ast.Expr)
				if s, ok := n.(*ast.SwitchStmt); ok {
					e = s.Tag
				}
				key := name + ": " + types.ExprString(e)
				found[key] = append(found[key], s.set.Position(e.Pos()))
				return true
			})
		}
	}
	return found
}

// No code decides by the text of a message, because texts change: a typed reason, a code or a field says what is the case.
func TestMessages_allPackages_decideNothingByText(t *testing.T) {
	s, files := checked(t)
	if len(files) < 300 {
		t.Errorf("read only %d files", len(files))
	}
	found := decisions(s, files)
	for _, expression := range slices.Sorted(maps.Keys(found)) {
		if readsText[expression] == "" {
			t.Errorf("%s: decides by the text of a message; use a type, a code or a field, or add %q with a reason to readsText", found[expression][0], expression)
		}
	}
	for expression := range readsText {
		if found[expression] == nil {
			t.Errorf("%s is not found or does not decide by the text of a message; remove it from readsText", expression)
		}
	}
}

// The comments of the sample say which lines decide by the text of a message.
func TestDecisions_sample_eachIsFound(t *testing.T) {
	s := newSource()
	const dir = "testdata/messages"
	packages := newPackageImporter(s.set, compiledPackages(t, "fmt", "io", "regexp", "slices", "k8s.io/api/core/v1", "k8s.io/api/events/v1", module+"/internal/core/decision"))
	files := packages.check(t, s, module+"/other", []string{filepath.Join(dir, "other.go.txt")})
	files = append(files, packages.check(t, s, module+"/sample", []string{filepath.Join(dir, "sample.go.txt")})...)
	asked := optional(s.info, files)
	if len(asked) != 2 || asked[module+"/other.Matcher"] == nil || asked["interface{Fits() bool}"] == nil {
		t.Errorf("optional interfaces of the sample: %v", asked)
	}
	var got, want []string
	for _, positions := range decisions(s, files) {
		for _, at := range positions {
			got = append(got, fmt.Sprintf("%s:%03d", filepath.Base(at.Filename), at.Line))
		}
	}
	for _, f := range files {
		for _, group := range f.Comments {
			for _, c := range group.List {
				if at := s.set.Position(c.Pos()); c.Text == "// decides" {
					want = append(want, fmt.Sprintf("%s:%03d", filepath.Base(at.Filename), at.Line))
				}
			}
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	got = slices.Compact(got)
	if len(want) < 20 || !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
