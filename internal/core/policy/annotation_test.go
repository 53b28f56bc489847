// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"strings"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
)

func TestAnnotation_fits_listResourcesAndNotes(t *testing.T) {
	a := recommend(exactly("a", of(250, 300*mi)), exactly("c", memory(300*mi)))
	a.Policies = []cluster.ContainerPolicy{{Container: "a", MaxAllowed: cpu(200)}}
	p := podOf(
		container("a", of(100, 100*mi), cpu(200)),
		container("b", of(100, 100*mi), cluster.Resources{}),
		container("c", cluster.Resources{}, cluster.Resources{}),
	)
	want := "Pod resources updated by cart: " +
		"container 0: cpu capped to maxAllowed, memory: limit NOT set since originalLimit is nil or 0, " +
		"cpu request, memory request, cpu limit; container 2: memory request"
	if got := Annotation(a, Fit(a, Limits{}, p)); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got := Annotation(a, nil); got != "" {
		t.Errorf("annotation without set resources = %q, want none", got)
	}
}

// parseObserved returns the names in an annotation vpaObservedContainers. It returns false if one of them is not a valid container
// name; then the annotation is ignored.
func parseObserved(value string) ([]string, bool) {
	if value == "" {
		return nil, true
	}
	names := strings.Split(value, observedSeparator)
	for _, n := range names {
		if !isLabel(n) {
			return nil, false
		}
	}
	return names, true
}

func TestObservedContainers_parse_roundTrips(t *testing.T) {
	side := container("mesh", cluster.Resources{}, cluster.Resources{})
	side.Role = cluster.Sidecar
	p := podOf(container("app", cpu(1), cpu(1)), side, container("log-2", cpu(1), cpu(1)))
	if value := ObservedContainers(p); value != "app, mesh, log-2" {
		t.Fatalf("value with a sidecar that is sized is %q", value)
	}
	p.Fix(cluster.Fixed{Sidecars: true})
	value := ObservedContainers(p)
	if value != "app, log-2" {
		t.Fatalf("value is %q", value)
	}
	if names, ok := parseObserved(value); !ok || !slices.Equal(names, []string{"app", "log-2"}) {
		t.Errorf("parsed %v, %v", names, ok)
	}
}

func TestObserved_annotationValues_matchparseObserved(t *testing.T) {
	for _, c := range []struct {
		annotation, container string
		want                  bool
	}{
		{"", "app", true},
		{"app", "app", true},
		{"app, log", "log", true},
		{"app, log", "proxy", false},
		{"app,log", "proxy", true},  // wrong separator
		{"App, log", "proxy", true}, // App is not a valid container name
		{"app, ", "proxy", true},
		{"app, -x", "proxy", true},
	} {
		if got := Observed(c.annotation, c.container); got != c.want {
			t.Errorf("Observed(%q, %q) = %v", c.annotation, c.container, got)
		}
	}
}

func FuzzObservedAgreesWithItsParser(f *testing.F) {
	f.Add("app, log", "app")
	f.Add("app,log", "app")
	f.Add(", ", "")
	f.Fuzz(func(t *testing.T, annotation, name string) {
		names, readable := parseObserved(annotation)
		want := annotation == "" || !readable || slices.Contains(names, name)
		if got := Observed(annotation, name); got != want {
			t.Fatalf("Observed(%q, %q) = %v", annotation, name, got)
		}
		if readable && strings.Join(names, observedSeparator) != annotation {
			t.Fatalf("%q does not round-trip: %q", annotation, names)
		}
	})
}
