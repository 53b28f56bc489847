// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package archtest

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"
)

// The taint of an expression says where its text comes from: from a message, from a message that a caller passes, or from the parameter i
// of the function, which has the bit firstParameter<<i.
const (
	ofMessage uint64 = 1 << iota
	ofCaller
	firstParameter
)

// messages is the mask of the taints of a text that is or can be a message.
const messages = ofMessage | ofCaller

// taintAnalysis follows the texts of errors, conditions, events and statuses through the functions, variables and fields of packages, and
// collects the expressions that decide by them. It does not follow values in channels and results of function values.
type taintAnalysis struct {
	set     *token.FileSet
	info    *types.Info
	objects map[types.Object]uint64     // variables, parameters and fields
	results map[*types.Func][]uint64    // the taints of the results of functions and methods
	methods map[string][]*types.Func    // concrete methods by name, for calls through interfaces
	within  *types.Func                 // the function being read
	found   map[string][]token.Position // by function and expression, as in readsText
	changed bool                        // whether this pass over all functions added a taint
}

func newTaintAnalysis() *taintAnalysis {
	return &taintAnalysis{
		set: token.NewFileSet(),
		info: &types.Info{
			Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{},
			Selections: map[*ast.SelectorExpr]*types.Selection{}, Implicits: map[ast.Node]types.Object{},
		},
		objects: map[types.Object]uint64{}, results: map[*types.Func][]uint64{}, methods: map[string][]*types.Func{},
	}
}

// isText reports whether a value of a type is a text or contains texts directly.
func isText(t types.Type) bool {
	switch t := t.Underlying().(type) {
	case *types.Basic:
		return t.Info()&types.IsString != 0
	case *types.Slice:
		if b, ok := t.Elem().Underlying().(*types.Basic); ok && b.Kind() == types.Byte {
			return true
		}
		return isText(t.Elem())
	case *types.Array:
		return isText(t.Elem())
	case *types.Pointer:
		return isText(t.Elem())
	case *types.Map:
		return isText(t.Elem())
	}
	return false
}

// origin returns the declared variable or field of an instance of a generic type.
func origin(o types.Object) types.Object {
	if v, ok := o.(*types.Var); ok {
		return v.Origin()
	}
	return o
}

// add adds a taint to a variable, parameter or field.
func (ta *taintAnalysis) add(o types.Object, taint uint64) {
	v, ok := o.(*types.Var)
	if !ok || !isText(v.Type()) {
		return
	}
	v = v.Origin()
	if v.IsField() || v.Pkg() != nil && v.Parent() == v.Pkg().Scope() { // beyond one call, only messages matter
		if taint&messages == 0 {
			return
		}
		taint = ofMessage
	}
	if ta.objects[v]|taint != ta.objects[v] {
		ta.objects[v] |= taint
		ta.changed = true
	}
}

// callee returns the function or method that an expression calls, or nil for function values and conversions.
func (ta *taintAnalysis) callee(e ast.Expr) *types.Func {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		f, _ := ta.info.Uses[e].(*types.Func)
		return f
	case *ast.SelectorExpr:
		f, _ := ta.info.Uses[e.Sel].(*types.Func)
		return f
	case *ast.IndexExpr:
		return ta.callee(e.X)
	case *ast.IndexListExpr:
		return ta.callee(e.X)
	}
	return nil
}

// targets returns the functions that a call may reach: f, or the methods that implement it if it is a method of an interface.
func (ta *taintAnalysis) targets(f *types.Func) []*types.Func {
	receiver := f.Signature().Recv()
	if receiver == nil || !types.IsInterface(receiver.Type()) {
		return []*types.Func{f.Origin()}
	}
	face, _ := receiver.Type().Underlying().(*types.Interface)
	var out []*types.Func
	for _, m := range ta.methods[f.Name()] {
		if t := m.Signature().Recv().Type(); types.Implements(t, face) || types.Implements(types.NewPointer(t), face) {
			out = append(out, m)
		}
	}
	return out
}

// isMessageOfError reports whether f is the method Error of an error.
func isMessageOfError(f *types.Func) bool {
	s := f.Signature()
	return f.Name() == "Error" && s.Recv() != nil && s.Params().Len() == 0 && s.Results().Len() == 1 && isText(s.Results().At(0).Type())
}

// isMessageField reports whether a field is the text of a condition, an event, a status or a state of a container.
func isMessageField(o types.Object) bool {
	v, ok := o.(*types.Var)
	if !ok || !v.IsField() || !isText(v.Type()) {
		return false
	}
	return v.Name() == "Message" || v.Name() == "Note" && v.Pkg() != nil && v.Pkg().Path() == "k8s.io/api/events/v1"
}

// taint returns where the text of an expression comes from, or 0 if it is not known to be a message.
func (ta *taintAnalysis) taint(e ast.Expr) uint64 {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return ta.objects[origin(ta.info.ObjectOf(e))]
	case *ast.SelectorExpr:
		o := ta.info.ObjectOf(e.Sel)
		if isMessageField(o) {
			return ofMessage
		}
		return ta.objects[origin(o)]
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			return ta.taint(e.X) | ta.taint(e.Y)
		}
	case *ast.IndexExpr:
		return ta.taint(e.X)
	case *ast.SliceExpr:
		return ta.taint(e.X)
	case *ast.StarExpr:
		return ta.taint(e.X)
	case *ast.UnaryExpr:
		if e.Op == token.AND {
			return ta.taint(e.X)
		}
	case *ast.CompositeLit:
		if t := ta.info.TypeOf(e); t != nil && isText(t) {
			return ta.union(e.Elts)
		}
	case *ast.KeyValueExpr:
		return ta.taint(e.Value)
	case *ast.CallExpr:
		return ta.taintOfCall(e, 0)
	}
	return 0
}

func (ta *taintAnalysis) union(list []ast.Expr) (taint uint64) {
	for _, e := range list {
		taint |= ta.taint(e)
	}
	return taint
}

// isError reports whether the type of an expression has a method Error.
func (ta *taintAnalysis) isError(e ast.Expr) bool {
	t := ta.info.TypeOf(e)
	face, _ := types.Universe.Lookup("error").Type().Underlying().(*types.Interface)
	return t != nil && t != types.Typ[types.UntypedNil] && types.Implements(t, face)
}

// taintOfCall returns where the result with an index of a call comes from.
func (ta *taintAnalysis) taintOfCall(call *ast.CallExpr, index int) (taint uint64) {
	result := ta.info.TypeOf(call)
	if all, ok := result.(*types.Tuple); ok {
		if index >= all.Len() {
			return 0
		}
		result = all.At(index).Type()
	}
	if !isText(result) && !strings.HasSuffix(result.String(), "iter.Seq[string]") {
		return 0
	}
	if t := ta.info.Types[call.Fun]; t.IsType() || t.IsBuiltin() { // a conversion, append, min and max
		return ta.union(call.Args)
	}
	f := ta.callee(call.Fun)
	if f == nil {
		return 0
	}
	if isMessageOfError(f) {
		return ofMessage
	}
	if f.Pkg() != nil && !under(f.Pkg().Path(), []string{module}) { // strings.TrimSpace, fmt.Sprint, cmp.Or
		for _, a := range call.Args {
			if taint |= ta.taint(a); strings.HasPrefix(f.Name(), "Sprint") && ta.isError(a) {
				taint |= ofMessage
			}
		}
		return taint
	}
	for _, to := range ta.targets(f) {
		if index >= len(ta.results[to]) {
			continue
		}
		of := ta.results[to][index]
		taint |= of & ofMessage
		for i, a := range call.Args {
			if of&(firstParameter<<parameter(to, i)) != 0 {
				taint |= ta.taint(a)
			}
		}
	}
	return taint
}

// parameter returns the index of the parameter that gets the argument i.
func parameter(f *types.Func, i int) int { return min(i, f.Signature().Params().Len()-1) }

// read reads a function once: it adds taints, and collects decisions by the taints that are known.
func (ta *taintAnalysis) read(f *types.Func, body *ast.BlockStmt) {
	ta.within = f
	for i := range f.Signature().Params().Len() {
		ta.add(f.Signature().Params().At(i), firstParameter<<i)
	}
	ta.returned(f, body)
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			ta.assign(n.Lhs, n.Rhs)
		case *ast.ValueSpec:
			names := make([]ast.Expr, len(n.Names))
			for i, name := range n.Names {
				names[i] = name
			}
			ta.assign(names, n.Values)
		case *ast.RangeStmt:
			if taint := ta.taint(n.X); taint != 0 {
				ta.store(n.Key, taint)
				ta.store(n.Value, taint)
			}
		case *ast.CompositeLit:
			ta.fields(n)
		case *ast.CallExpr:
			ta.pass(n)
			ta.decidesByCall(n)
		case *ast.BinaryExpr:
			ta.decidesByComparison(n)
		case *ast.SwitchStmt:
			ta.decidesBySwitch(n)
		case *ast.IndexExpr:
			if t := ta.info.TypeOf(n.X); t != nil {
				if _, isMap := t.Underlying().(*types.Map); isMap && ta.taint(n.Index)&messages != 0 {
					ta.report(n)
				}
			}
		}
		return true
	})
}

// returned adds the taints of what a function returns.
func (ta *taintAnalysis) returned(f *types.Func, body *ast.BlockStmt) {
	results := f.Signature().Results()
	taints := make([]uint64, results.Len())
	for i := range taints {
		taints[i] = ta.objects[results.At(i)]
	}
	ast.Inspect(body, func(n ast.Node) bool {
		if r, ok := n.(*ast.ReturnStmt); ok && len(r.Results) > 0 {
			for i := range taints {
				taints[i] |= ta.value(r.Results, i, len(taints))
			}
		}
		_, inner := n.(*ast.FuncLit)
		return !inner
	})
	for i := range taints {
		if taints[i] &^= ofCaller; !isText(results.At(i).Type()) { // a message that a caller passes has the taint of the parameter, too
			taints[i] = 0
		}
	}
	if !slices.Equal(taints, ta.results[f]) {
		ta.results[f] = taints
		ta.changed = true
	}
}

// value returns the taint of the value i of n values, which are expressions or the results of one call.
func (ta *taintAnalysis) value(from []ast.Expr, i, n int) uint64 {
	if len(from) == n {
		return ta.taint(from[i])
	}
	if len(from) == 0 {
		return 0
	}
	if call, ok := ast.Unparen(from[0]).(*ast.CallExpr); ok {
		return ta.taintOfCall(call, i)
	}
	return ta.taint(from[0]) // of a map or a channel, with ok
}

func (ta *taintAnalysis) assign(to, from []ast.Expr) {
	for i, e := range to {
		ta.store(e, ta.value(from, i, len(to)))
	}
}

// store adds a taint to the variable or field that an expression names, or to the one that contains the element.
func (ta *taintAnalysis) store(to ast.Expr, taint uint64) {
	if to == nil || taint == 0 {
		return
	}
	switch to := ast.Unparen(to).(type) {
	case *ast.Ident:
		ta.add(ta.info.ObjectOf(to), taint)
	case *ast.SelectorExpr:
		ta.add(ta.info.ObjectOf(to.Sel), taint)
	case *ast.IndexExpr:
		ta.store(to.X, taint)
	case *ast.StarExpr:
		ta.store(to.X, taint)
	}
}

// fields adds taints to the fields of a struct literal.
func (ta *taintAnalysis) fields(lit *ast.CompositeLit) {
	t := ta.info.TypeOf(lit)
	if t == nil {
		return
	}
	if pointer, ok := t.Underlying().(*types.Pointer); ok {
		t = pointer.Elem()
	}
	structure, ok := t.Underlying().(*types.Struct)
	if !ok {
		return
	}
	for i, e := range lit.Elts {
		if pair, ok := e.(*ast.KeyValueExpr); ok {
			if name, ok := pair.Key.(*ast.Ident); ok {
				ta.add(ta.info.ObjectOf(name), ta.taint(pair.Value))
			}
		} else {
			ta.add(structure.Field(i), ta.taint(e))
		}
	}
}

// pass marks the parameters that get a message.
func (ta *taintAnalysis) pass(call *ast.CallExpr) {
	f := ta.callee(call.Fun)
	if f == nil || ta.info.Types[call.Fun].IsType() {
		return
	}
	for _, to := range ta.targets(f) {
		for i, a := range call.Args {
			if ta.taint(a)&messages != 0 {
				ta.add(to.Signature().Params().At(parameter(to, i)), ofCaller)
			}
		}
	}
}

// decides lists the functions of other packages that look for something in a text, by the package and the beginning of the name.
var decides = regexp.MustCompile(`^((strings|bytes)\.(Contains|HasPrefix|HasSuffix|EqualFold|Index|LastIndex|Count|Compare|Cut)|` +
	`slices\.(Contains|Index|BinarySearch)|regexp\.(Match|Find)|path\.Match|filepath\.Match|strconv\.(Parse|Atoi|Unquote)|fmt\.Sscan|json\.Unmarshal)`)

func (ta *taintAnalysis) decidesByCall(call *ast.CallExpr) {
	f := ta.callee(call.Fun)
	if f == nil || f.Pkg() == nil || !decides.MatchString(f.Pkg().Name()+"."+f.Name()) {
		return
	}
	isMessage := func(e ast.Expr) bool { return ta.taint(e)&messages != 0 }
	if f.Name() == "Compare" && !slices.ContainsFunc(call.Args, func(e ast.Expr) bool { return !isMessage(e) }) {
		return // an order of messages
	}
	if slices.ContainsFunc(call.Args, isMessage) {
		ta.report(call)
	}
}

// decidesByComparison finds comparisons of a message with another text. Two messages may be compared, to see that a message has changed, and
// a message may be empty.
func (ta *taintAnalysis) decidesByComparison(e *ast.BinaryExpr) {
	switch e.Op {
	case token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ:
	default:
		return
	}
	left := ta.taint(e.X)&messages != 0
	right := ta.taint(e.Y)&messages != 0
	switch {
	case !left && !right, left && ta.isEmpty(e.Y), right && ta.isEmpty(e.X):
	case left != right, ta.isSentinel(e.X), ta.isSentinel(e.Y):
		ta.report(e)
	}
}

func (ta *taintAnalysis) decidesBySwitch(s *ast.SwitchStmt) {
	if s.Tag == nil || ta.taint(s.Tag)&messages == 0 {
		return
	}
	for _, clause := range s.Body.List {
		if c, ok := clause.(*ast.CaseClause); ok && slices.ContainsFunc(c.List, func(e ast.Expr) bool { return !ta.isEmpty(e) }) {
			ta.report(s.Tag)
		}
	}
}

// isEmpty reports whether an expression is the constant "", or is no text, such as nil.
func (ta *taintAnalysis) isEmpty(e ast.Expr) bool {
	t := ta.info.Types[e]
	if t.IsNil() {
		return true
	}
	return t.Value != nil && t.Value.Kind() == constant.String && constant.StringVal(t.Value) == ""
}

// isSentinel reports whether an expression is the message of a variable of a package, such as io.EOF.Error().
func (ta *taintAnalysis) isSentinel(e ast.Expr) bool {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok {
		return false
	}
	method, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok {
		return false
	}
	var o types.Object
	switch x := ast.Unparen(method.X).(type) {
	case *ast.Ident:
		o = ta.info.ObjectOf(x)
	case *ast.SelectorExpr:
		o = ta.info.ObjectOf(x.Sel)
	}
	v, ok := o.(*types.Var)
	return ok && !v.IsField() && v.Pkg() != nil && v.Parent() == v.Pkg().Scope()
}

// report keeps an expression that decides by a message.
func (ta *taintAnalysis) report(e ast.Expr) {
	name := strings.NewReplacer(module+"/internal/", "", module+"/", "", "(", "", ")", "", "*", "").Replace(ta.within.FullName())
	name += ": " + types.ExprString(e)
	ta.found[name] = append(ta.found[name], ta.set.Position(e.Pos()))
}

// body is a function with its source.
type body struct {
	function *types.Func
	block    *ast.BlockStmt
}

// find reads the functions of files again and again until no taint is added, and returns what decides by a message.
func (ta *taintAnalysis) find(files []*ast.File) map[string][]token.Position {
	var all []body
	for _, f := range files {
		for _, d := range f.Decls {
			function, ok := d.(*ast.FuncDecl)
			if !ok || function.Body == nil {
				continue
			}
			o, ok := ta.info.Defs[function.Name].(*types.Func)
			if !ok {
				continue
			}
			all = append(all, body{o, function.Body})
			if function.Recv != nil {
				ta.methods[o.Name()] = append(ta.methods[o.Name()], o)
			}
		}
	}
	for ta.changed = true; ta.changed; {
		ta.changed = false
		ta.found = map[string][]token.Position{} // early passes do not know all messages
		for _, b := range all {
			ta.read(b.function, b.block)
		}
	}
	return ta.found
}
