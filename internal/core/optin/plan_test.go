// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package optin

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/cluster"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func deployment(namespace, name string) cluster.Workload {
	return cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: namespace, Name: name}
}

// setting is what a namespace that opts in with a mode wants.
func setting(mode cluster.Mode) Setting {
	return Setting{Mode: mode, Profile: "default", Policy: cluster.ContainerPolicy{Container: "*"}}
}

// written returns the autoscaler that a change leaves.
func written(c *Change, ended time.Time) *cluster.Autoscaler {
	return &cluster.Autoscaler{
		Key: Key(c.Target), Target: c.Target, UID: "u", Mode: c.Setting.Mode, Recommender: c.Setting.Profile, Policies: []cluster.ContainerPolicy{c.Setting.Policy},
		OptedIn: true, OptInEnded: ended,
	}
}

// ours returns the autoscaler of the Deployment web as podfit creates it in a namespace that opts in with the mode Off.
func ours(change ...func(*cluster.Autoscaler)) *cluster.Autoscaler {
	a := written(&Change{Target: deployment("shop", "web"), Setting: setting(cluster.Off)}, time.Time{})
	for _, c := range change {
		c(a)
	}
	return a
}

// persons returns an autoscaler of a person.
func persons(name, target string) *cluster.Autoscaler {
	return &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: name}, Target: deployment("shop", target), UID: "p"}
}

func named(all ...Namespace) map[string]Namespace {
	out := map[string]Namespace{}
	for _, n := range all {
		out[n.Name] = n
	}
	return out
}

func endedAt(at time.Time) func(*cluster.Autoscaler) {
	return func(a *cluster.Autoscaler) { a.OptInEnded = at }
}

func TestPlan_situations_haveTheirChanges(t *testing.T) {
	on := Namespace{Name: "shop", On: true, Setting: setting(cluster.Off)}
	off := Namespace{Name: "shop"}
	bounded := on
	bounded.Policy.MaxAllowed = cluster.Amounts(1000, 1<<30)
	invalid := on
	invalid.Problem = "invalid"
	const web = "podfit-deployment-web"
	type autoscalers = []*cluster.Autoscaler
	for name, c := range map[string]struct {
		namespace   Namespace
		autoscalers autoscalers
		want        []string
	}{
		"opted in, no VPA":                   {on, nil, []string{"create " + web}},
		"not opted in, no VPA":               {off, nil, nil},
		"up to date":                         {on, autoscalers{ours()}, nil},
		"VPA of a person":                    {on, autoscalers{persons("mine", "web")}, nil},
		"VPA of a person and ours":           {on, autoscalers{persons("mine", "web"), ours()}, []string{"delete " + web}},
		"ours and a VPA of a person":         {on, autoscalers{ours(), persons("z-mine", "web")}, []string{"delete " + web}},
		"the same without the label":         {off, autoscalers{ours(), persons("z-mine", "web")}, []string{"delete " + web}},
		"VPA of a person with podfit's name": {on, autoscalers{persons(web, "other")}, []string{"create " + web}}, // the API server refuses it, and it backs off
		"another mode":                       {on, autoscalers{ours(func(a *cluster.Autoscaler) { a.Mode = cluster.Recreate })}, []string{"update " + web}},
		"another profile":                    {on, autoscalers{ours(func(a *cluster.Autoscaler) { a.Recommender = "cost" })}, []string{"update " + web}},
		"policies removed":                   {on, autoscalers{ours(func(a *cluster.Autoscaler) { a.Policies = nil })}, []string{"update " + web}},
		"policy of a container added": {on, autoscalers{ours(func(a *cluster.Autoscaler) {
			a.Policies = append(a.Policies, cluster.ContainerPolicy{Container: "app"})
		})}, []string{"update " + web}},
		"bounds missing":                  {bounded, autoscalers{ours()}, []string{"update " + web}},
		"bounds present":                  {bounded, autoscalers{ours(func(a *cluster.Autoscaler) { a.Policies[0].MaxAllowed = cluster.Amounts(1000, 1<<30) })}, nil},
		"target changed by a person":      {on, autoscalers{ours(func(a *cluster.Autoscaler) { a.Target.Name = "other" })}, []string{"create " + web}},
		"label removed":                   {off, autoscalers{ours()}, []string{"end " + web}},
		"label removed 9 minutes ago":     {off, autoscalers{ours(endedAt(noon.Add(-9 * time.Minute)))}, nil},
		"label removed 10 minutes ago":    {off, autoscalers{ours(endedAt(noon.Add(-grace)))}, []string{"delete " + web}},
		"record in the future":            {off, autoscalers{ours(endedAt(noon.Add(time.Hour)))}, []string{"end " + web}},
		"label set again":                 {on, autoscalers{ours(endedAt(noon.Add(-time.Hour)))}, []string{"update " + web}},
		"invalid value, ours ended":       {invalid, autoscalers{ours(endedAt(noon.Add(-time.Hour)))}, nil},
		"invalid value, no VPA":           {invalid, nil, nil},
		"namespace not listed":            {Namespace{Name: "bank", On: true}, autoscalers{ours(endedAt(noon.Add(-time.Hour)))}, nil},
		"a person removed podfit's label": {on, autoscalers{ours(func(a *cluster.Autoscaler) { a.OptedIn, a.Mode = false, cluster.Recreate })}, nil},
		"the same without opt-in":         {off, autoscalers{ours(func(a *cluster.Autoscaler) { a.OptedIn = false })}, nil},
		"podfit's label, a person's name": {off, autoscalers{ours(func(a *cluster.Autoscaler) { a.Name = "mine" })}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, change := range (Book{}).Plan(noon, named(c.namespace), []cluster.Workload{deployment("shop", "web")}, c.autoscalers) {
				got = append(got, change.Act+" "+Key(change.Target).Name)
				if change.Reason == "" || change.Target != deployment("shop", "web") || (change.UID == "") != (change.Act == "create") || change.UID == "p" || change.Setting != c.namespace.Setting {
					t.Errorf("change %+v", change)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("changes (-want +got)\n%s", diff)
			}
		})
	}
}

func TestPlan_longName_isLeftOut(t *testing.T) {
	on := named(Namespace{Name: "shop", On: true})
	for length, want := range map[int]int{longestName - len("podfit-deployment-"): 1, longestName: 0} {
		if got := (Book{}).Plan(noon, on, []cluster.Workload{deployment("shop", strings.Repeat("x", length))}, nil); len(got) != want {
			t.Errorf("%d changes of a workload whose name has %d characters, want %d", len(got), length, want)
		}
	}
}

// A tenant with any number of workloads gets a bounded number of VPAs.
func TestPlan_manyWorkloads_areBounded(t *testing.T) {
	on := named(Namespace{Name: "shop", On: true, Setting: setting(cluster.Off)})
	var workloads []cluster.Workload
	for i := range 3 * mostPerNamespace {
		workloads = append(workloads, deployment("shop", fmt.Sprintf("w%04d", i)))
	}
	b := Book{}
	var have []*cluster.Autoscaler
	for pass := range 200 { // their names change all the time: the first ones are new in each pass
		now := noon.Add(time.Duration(pass) * time.Minute)
		due := b.Plan(now, on, workloads, have)
		if len(due) > mostWrites {
			t.Fatalf("%d writes in a pass", len(due))
		}
		for i := range due {
			b.Tried(now, &due[i], true)
			have = append(have, written(&due[i], time.Time{}))
		}
		workloads[pass].Name = fmt.Sprintf("a%04d", pass)
	}
	if len(have) != mostPerNamespace {
		t.Errorf("%d VPAs, want %d", len(have), mostPerNamespace)
	}
	if most := mostPerNamespace + mostWrites*int(2*lastBackoff/time.Minute); len(b) > most {
		t.Errorf("%d attempts are remembered", len(b))
	}
}

func TestPlan_writeWithoutEffect_isRepeatedEverLaterUpToOncePerHour(t *testing.T) {
	b := Book{}
	on := named(Namespace{Name: "shop", On: true, Setting: setting(cluster.Off)})
	workloads := []cluster.Workload{deployment("shop", "web")}
	var times []int
	for minute := range 8 * 60 {
		now := noon.Add(time.Duration(minute) * time.Minute)
		if due := b.Plan(now, on, workloads, nil); len(due) > 0 {
			b.Tried(now, &due[0], true)
			times = append(times, minute)
		}
	}
	if got, want := fmt.Sprint(times), "[0 2 6 14 30 62 122 182 242 302 362 422]"; got != want {
		t.Errorf("tried at the minutes %s, want %s", got, want)
	}
	other := named(Namespace{Name: "shop", On: true, Setting: setting(cluster.Initial)})
	if due := b.Plan(noon.Add(8*time.Hour), other, workloads, nil); len(due) != 1 {
		t.Error("a write of another setting waits")
	}
	later := noon.Add(20 * time.Hour)
	if due := b.Plan(later, on, workloads, nil); len(due) != 1 || b.Tried(later, &due[0], true) != 1 || len(b) != 1 {
		t.Errorf("an old attempt is remembered; %d are", len(b))
	}
}

// A tenant who changes the label of the own namespace all the time makes podfit update all VPAs there. The others still have their turns.
func TestPlan_tenantChangesItsLabelAllTheTime_othersHaveTheirTurns(t *testing.T) {
	b := Book{}
	var have []*cluster.Autoscaler
	for i := range mostPerNamespace {
		have = append(have, written(&Change{Target: deployment("bank", fmt.Sprintf("w%04d", i)), Setting: setting(cluster.Off)}, time.Time{}))
	}
	for pass := range 3 {
		bank := Namespace{Name: "bank", On: true, Setting: setting(cluster.Off)}
		bank.Policy.MinAllowed = cluster.Amounts(int64(pass+1), 1)
		shop := Namespace{Name: "shop", On: true, Setting: setting(cluster.Off)}
		due := b.Plan(noon.Add(time.Duration(pass)*time.Minute), named(bank, shop), []cluster.Workload{deployment("shop", "web")}, have)
		if len(due) != mostWrites || due[0].Target.Namespace != "bank" || due[1].Target.Namespace != "shop" {
			t.Fatalf("pass %d: %d writes", pass, len(due))
		}
	}
}

// After its changes, a plan is empty, each workload of a namespace that opts in has one autoscaler of podfit or some of persons, and no
// autoscaler of a person has changed. After the grace period, the other namespaces have none of podfit.
func TestPlan_anyCluster_convergesAndLeavesAutoscalersOfPersonsAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var namespaces []Namespace
		var workloads []cluster.Workload
		var have []*cluster.Autoscaler
		modes := []cluster.Mode{cluster.Off, cluster.Initial}
		for i := range rapid.IntRange(1, 3).Draw(t, "namespaces") {
			n := Namespace{Name: fmt.Sprint("ns", i), On: rapid.Bool().Draw(t, "on"), Setting: setting(rapid.SampledFrom(modes).Draw(t, "mode"))}
			if rapid.IntRange(0, 4).Draw(t, "problem") == 0 {
				n.Problem = "invalid"
			}
			namespaces = append(namespaces, n)
			for _, name := range []string{"a", "b", "c"} {
				w := deployment(n.Name, name)
				workloads = append(workloads, w)
				if rapid.Bool().Draw(t, "ours") {
					var ended time.Time
					if rapid.Bool().Draw(t, "ended") {
						ended = noon.Add(-time.Duration(rapid.IntRange(-20, 20).Draw(t, "minutes")) * time.Minute)
					}
					have = append(have, written(&Change{Target: w, Setting: setting(rapid.SampledFrom(modes).Draw(t, "mode"))}, ended))
				}
				for k := range rapid.IntRange(0, 2).Draw(t, "persons") {
					have = append(have, &cluster.Autoscaler{Key: cluster.Key{Namespace: n.Name, Name: fmt.Sprint(name, k)}, Target: w, UID: "p"})
				}
			}
		}
		apply := func(now time.Time) (changed int) {
			for _, c := range (Book{}).Plan(now, named(namespaces...), workloads, have) {
				changed++
				var kept []*cluster.Autoscaler
				for _, a := range have {
					switch {
					case a.Key != Key(c.Target):
						kept = append(kept, a)
					case !a.OptedIn || a.UID != c.UID:
						t.Fatalf("%s of the VPA %s", c.Act, a.Key)
					case c.Act == "end":
						a.OptInEnded = now
						kept = append(kept, a)
					}
				}
				if c.Act == "create" || c.Act == "update" {
					kept = append(kept, written(&c, time.Time{}))
				}
				have = kept
			}
			return changed
		}
		apply(noon)
		if again := apply(noon); again > 0 {
			t.Fatalf("a second pass has %d changes", again)
		}
		apply(noon.Add(grace + 21*time.Minute))
		for _, n := range namespaces {
			for _, w := range workloads {
				podfits, others := 0, 0
				for _, a := range have {
					if a.Target == w && a.OptedIn {
						podfits++
					} else if a.Target == w {
						others++
					}
				}
				switch {
				case n.Problem != "" || w.Namespace != n.Name:
				case n.On && podfits+min(others, 1) != 1, !n.On && podfits > 0:
					t.Errorf("%s has %d VPAs of podfit and %d others; namespace %+v", w, podfits, others, n)
				}
			}
		}
	})
}

// A label that flaps must not take the grace period of ten minutes.
func TestPlan_labelFlaps_VPAIsDeletedOnlyTenMinutesAfterTheLastRemoval(t *testing.T) {
	for period := 1; period <= 30; period++ {
		for duty := 1; duty < period; duty++ {
			b := Book{}
			a := ours()
			w := []cluster.Workload{deployment("shop", "web")}
			offSince := time.Time{}
			func() {
				for minute := range 600 {
					now := noon.Add(time.Duration(minute) * time.Minute)
					n := Namespace{Name: "shop"}
					if minute%period < duty {
						n.On, n.Setting = true, setting(cluster.Off)
						offSince = time.Time{}
					} else if offSince.IsZero() {
						offSince = now
					}
					for _, c := range b.Plan(now, named(n), w, []*cluster.Autoscaler{a}) {
						b.Tried(now, &c, true)
						switch c.Act {
						case "update":
							a = written(&c, time.Time{})
						case "end":
							a.OptInEnded = now
						case "delete":
							if now.Sub(offSince) < grace {
								t.Errorf("period %d duty %d: deleted at minute %d, %v after the removal", period, duty, minute, now.Sub(offSince))
							}
							return
						}
					}
				}
			}()
		}
	}
}
