// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
)

// reasonData returns the name of a reason and each field that is set, for transcripts. docs/messages.md has the sentences.
func reasonData(r decision.Reason) string {
	out := r.Code.String()
	add := func(set bool, format string, value any) {
		if set {
			out += " " + fmt.Sprintf(format, value)
		}
	}
	unit := r.Resource
	if unit == 0 {
		unit = cluster.Memory // NotEnoughMemory does not set it
	}
	add(r.Container != "", "container=%s", r.Container)
	add(r.Resource != 0, "resource=%s", r.Resource)
	add(r.From != 0, "from=%s", cluster.Format(unit, r.From))
	add(r.To != 0, "to=%s", cluster.Format(unit, r.To))
	add(r.Have != 0 || r.Want != 0, "have=%d", r.Have)
	add(r.Want != 0, "want=%d", r.Want)
	add(r.For != 0, "for=%s", r.For)
	add(!r.Until.IsZero(), "until=%s", r.Until.UTC().Format(time.RFC3339))
	add(r.Text != "", "text=%q", r.Text)
	add(r.Elsewhere != "", "elsewhere=%q", r.Elsewhere)
	add(r.Note != "", "note=%q", r.Note)
	add(r.Part, "part=%t", r.Part)
	add(r.Surge, "surge=%t", r.Surge)
	add(r.Fallback != decision.Fits, "fallback=%s", r.Fallback)
	return out
}

func TestReasonData_eachField_isWritten(t *testing.T) {
	all := decision.Reason{
		Code: decision.BelowRange, Fallback: decision.QoSChange, Resource: cluster.CPU, Container: "app", From: 100, To: 2000, Have: 3, Want: 4, For: time.Minute,
		Until: noon, Text: "a b", Elsewhere: "c", Note: "d", Part: true, Surge: true,
	}
	const want = `BelowRange container=app resource=cpu from=100m to=2 have=3 want=4 for=1m0s until=2026-03-02T12:00:00Z text="a b" elsewhere="c" note="d" part=true surge=true fallback=QoSChange`
	if got := reasonData(all); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for i := range reflect.TypeFor[decision.Reason]().NumField() {
		without := all
		field := reflect.ValueOf(&without).Elem().Field(i)
		if field.IsZero() {
			t.Errorf("%s is not set", reflect.TypeFor[decision.Reason]().Field(i).Name)
		}
		field.SetZero()
		if reasonData(without) == want {
			t.Errorf("%s is not written", reflect.TypeFor[decision.Reason]().Field(i).Name)
		}
	}
	if got := reasonData(decision.Reason{}); strings.Contains(got, "=") {
		t.Errorf("a reason without data is %s", got)
	}
}
