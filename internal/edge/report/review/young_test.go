// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	core "podfit.dev/podfit/internal/core/review"
)

// youngReport has a container with three hours of stored usage and two whose usage was read for twelve minutes: one that needs less, and one
// that needs more.
func youngReport(included bool) *core.Report {
	stored := subject(deploy("web", "new"), "app", 2, cluster.Amounts(100, 100*mib), cluster.Resources{}, cluster.Amounts(51, 61*mib))
	stored.Evidence.From, stored.Evidence.Hours = now.Add(-3*time.Hour), 3
	less := subject(deploy("web", "less"), "app", 2, cluster.Amounts(900, 900*mib), cluster.Resources{}, cluster.Amounts(52, 62*mib))
	more := subject(deploy("web", "more"), "app", 2, cluster.Amounts(10, 10*mib), cluster.Resources{}, cluster.Amounts(753, 763*mib))
	for _, s := range []*core.Subject{&less, &more} {
		s.Evidence.From, s.Evidence.Hours, s.Evidence.Samples, s.Evidence.Provisional = now.Add(-12*time.Minute), 1, 12, true
		if !included || s == &less {
			s.Kept = [2]core.Kept{{Reason: core.Provisional}, {Reason: core.Provisional}}
		}
	}
	for _, s := range []*core.Subject{&stored, &less, &more} {
		s.Targets = append(s.Targets, core.Target{Profile: "cost", Amount: cluster.Amounts(9999, 9999*mib)})
	}
	return core.New(core.Config{Cluster: "c", Source: "x", Profiles: []string{"balanced", "cost"}, Now: now, IncludeYoung: included}, []core.Subject{stored, less, more})
}

// A young number is shown in text, also without colours, with its age, and praised nowhere.
func TestYoung_people_seeNumberMarkAndAge(t *testing.T) {
	for _, o := range []Options{{}, {Width: 80}, {Width: 120}, {Sort: SortName}, {Sort: SortMoney}, {Sort: SortName, Width: 80}} {
		for _, format := range []string{"table", "wide", "markdown", "html"} {
			got := strings.Join(strings.Fields(written(t, format, youngReport(false), o)), " ")
			for _, want := range []string{"100m, young 51m", "900m, young 52m", "10m, young 753m", "100Mi, young 61Mi", "from 12 min of usage", "Young numbers are from less than 6 hours of usage."} {
				if !strings.Contains(got, want) {
					t.Errorf("%s, %+v: no %q in\n%s", format, o, want, got)
				}
			}
			if !strings.Contains(got, "from 3 h of usage") && !strings.Contains(got, "not enough usage: 3 hours, 6 are needed") {
				t.Errorf("%s, %+v: no age of the stored usage in\n%s", format, o, got)
			}
			for _, never := range []string{"→", "can be freed.", "without risk and waste", "keep"} {
				if strings.Contains(got, never) {
					t.Errorf("%s, %+v: it says %q:\n%s", format, o, never, got)
				}
			}
		}
	}
	if got := written(t, "table", youngReport(false), Options{Colour: true}); !strings.Contains(got, "\x1b[90mweb/deploy/new") {
		t.Errorf("young rows are not grey:\n%q", got)
	}
	if got := written(t, "html", youngReport(false), Options{}); !strings.Contains(got, `<tr class="young">`) {
		t.Errorf("young rows are not grey:\n%s", got)
	}
	if got := written(t, "table", youngReport(true), Options{Sort: SortName}); !strings.Contains(got, "100m → 51m (young)") || !strings.Contains(got, "They are included.") {
		t.Errorf("included numbers are not marked:\n%s", got)
	}
}

// Manifests have a young number only if that is asked for. Programs that do not know the fields of young numbers get none.
func TestYoung_programs_getNumberInItsOwnFieldsOnly(t *testing.T) {
	for _, format := range []string{"patch", "kustomize", "helm-values", "vpa", "krr-json", "krr-csv"} {
		got := written(t, format, youngReport(false), Options{})
		for _, number := range []string{"51m", "52m", "753m", "61Mi", "62Mi", "763Mi", "0.051", "0.052", "0.753", "9999"} {
			if strings.Contains(got, number) {
				t.Errorf("%s has the young number %s:\n%s", format, number, got)
			}
		}
		if manifest := !strings.HasPrefix(format, "krr") && format != "vpa"; manifest && !strings.Contains(got, "left out: 3 containers with less than 6 hours of usage (--include-young)") {
			t.Errorf("%s does not say what is left out:\n%s", format, got)
		}
		if strings.Contains(got, "GOOD") {
			t.Errorf("%s praises the requests:\n%s", format, got)
		}
	}
	for _, format := range []string{"patch", "kustomize", "helm-values"} {
		got := written(t, format, youngReport(true), Options{})
		for number, want := range map[string]bool{"51m": true, "753m": true, "52m": false} {
			if strings.Contains(got, number) != want {
				t.Errorf("%s with young numbers: has %s: %v, want %v:\n%s", format, number, !want, want, got)
			}
		}
	}
	got := written(t, "json", youngReport(false), Options{})
	for _, number := range []string{"51m", "52m", "753m"} {
		if strings.Count(got, `"`+number+`"`) != 1 || !strings.Contains(got, `"youngTarget": "`+number+`"`) {
			t.Errorf("json: %s is not the youngTarget only:\n%s", number, got)
		}
	}
	if strings.Count(got, `"young": true`) != 3 || strings.Count(got, `"usageMinutes": 12`) != 2 || strings.Contains(got, "9999") {
		t.Errorf("json has not the age of three young numbers, or those of another profile:\n%s", got)
	}
	for line := range strings.Lines(written(t, "csv", youngReport(false), Options{Sort: SortName})) {
		cells := strings.Split(strings.TrimSpace(line), ",")
		if old := strings.Join(cells[:len(cells)-4], " ") + " "; strings.Contains(line, "true,") && (strings.Contains(old, " 51 ") || strings.Contains(old, " 52 ") || strings.Contains(old, " 753 ")) ||
			!strings.Contains(line, ",true,") && cells[0] != "namespace" {
			t.Errorf("csv: a young number in another column: %s", line)
		}
	}
}

// A trace has no requests. A young number of it does not say that there are none.
func TestYoung_requestsAreNotKnown_numberIsAlone(t *testing.T) {
	s := subject(deploy("web", "new"), "app", 0, cluster.Resources{}, cluster.Resources{}, cluster.Amounts(51, 61*mib))
	s.Evidence.From, s.Evidence.Hours = now.Add(-3*time.Hour), 3
	got := written(t, "table", core.New(core.Config{Profiles: []string{"balanced"}, Now: now}, []core.Subject{s}), Options{})
	if !strings.Contains(got, "young 51m") || strings.Contains(got, "none,") {
		t.Errorf("got\n%s", got)
	}
}
