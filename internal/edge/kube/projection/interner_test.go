// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/test/kubetest"
)

func TestInterner_manyStrings_areDroppedAndStayEqual(t *testing.T) {
	in := new(Interner)
	first := in.String("keep")
	for i := range 3 * internGeneration {
		s := fmt.Sprint(i)
		if in.String(s) != s {
			t.Fatal("String returned a different string")
		}
		in.String("keep")
	}
	if in.String("keep") != first || len(in.young)+len(in.old) > 2*internGeneration {
		t.Errorf("%d strings are stored, or a used string was replaced", len(in.young)+len(in.old))
	}
	var none *Interner
	if none.String("x") != "x" {
		t.Error("a nil interner returned a different string")
	}
}

func TestInterner_podsCreatedAndDeleted_heapDoesNotGrow(t *testing.T) {
	const mib = 1 << 20
	in := new(Interner)
	before := kubetest.HeapBytes()
	for i := range 100_000 {
		Pod(kubetest.HostilePod(i), in)
	}
	if grown := kubetest.HeapBytes() - before; grown > 24*mib {
		t.Errorf("the heap grew by %d MiB after 100,000 deleted pods", grown/mib)
	}
	if n := len(in.selectors); n > maxSelectors {
		t.Errorf("%d node selectors are stored, want at most %d", n, maxSelectors)
	}
	runtime.KeepAlive(in)
}

func TestInterner_selectorUnusedInTwoCleanups_isFreedForAnotherPod(t *testing.T) {
	in := new(Interner)
	kept := Pod(kubetest.HostilePod(0), in)
	used := map[cluster.Place]bool{kept.Place: true}
	for i := range maxSelectors + 10 {
		Pod(kubetest.HostilePod(i), in)
	}
	another := kubetest.HostilePod(maxSelectors + 20)
	if p := Pod(another, in); p.Place != cluster.Somewhere {
		t.Fatalf("place %d with all selectors in use, want %d", p.Place, cluster.Somewhere)
	}
	if !in.Crowded() {
		t.Error("Crowded returned false with all selectors in use")
	}
	for range 2 { // in the first call the selectors are new, in the second they are unused for the first time
		in.ForgetSelectors(used)
		if n := len(in.free); n > 0 {
			t.Fatalf("%d selectors were freed too early: a pod that is not stored yet may have one", n)
		}
	}
	in.ForgetSelectors(used)
	p := Pod(another, in)
	if p.Place < cluster.Selected || p.Place == kept.Place {
		t.Errorf("new pod has place %d, existing pod has place %d", p.Place, kept.Place)
	}
	if got := Pod(kubetest.HostilePod(0), in).Place; got != kept.Place {
		t.Errorf("place of the used selector changed from %d to %d", kept.Place, got)
	}
	want := fmt.Sprintf("key%08d=value%08d", maxSelectors+20, maxSelectors+20)
	if s := in.Selectors(); s[p.Place-cluster.Selected].Labels[0] != want {
		t.Errorf("selector of the new pod %q, want %q", s[p.Place-cluster.Selected].Labels, want)
	}
}

func TestPod_largeObservedAnnotation_isOmitted(t *testing.T) {
	p := kubetest.HostilePod(1)
	if got := Pod(p, nil).ObservedContainers(); got != "" {
		t.Errorf("%d bytes of the annotation of a pod with one container are kept, want 0", len(got))
	}
	for range 250 {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{})
	}
	p.Annotations[v1.AnnotationObservedContainers] = strings.Repeat(strings.Repeat("x", 63)+", ", 250)
	if got := Pod(p, nil).ObservedContainers(); len(got) != 250*65 {
		t.Errorf("%d bytes of 250 names of maximum length are kept, want all", len(got))
	}
}

// Pods with the same PriorityClass share what they say; hostile labels do not fill the memory.
func TestInterner_marks_areSharedAndBounded(t *testing.T) {
	in := new(Interner)
	gold := cluster.Marks{Criticality: cluster.Criticality{PriorityClass: "gold"}}
	first := in.marks(gold)
	if second := in.marks(gold); first != second || *first != gold {
		t.Errorf("two pods with the same PriorityClass have %p %+v and %p", first, first, second)
	}
	for i := range 3 * maxMarks {
		in.marks(cluster.Marks{Criticality: cluster.Criticality{Labelled: true, Label: strconv.Itoa(i)}})
	}
	if n := len(in.shared); n > maxMarks {
		t.Errorf("%d marks are kept", n)
	}
	if *first != gold {
		t.Errorf("the marks of a pod have changed: %+v", first)
	}
	protected := cluster.Marks{Criticality: gold.Criticality, Protection: "karpenter.sh/do-not-disrupt: true"}
	if got := in.marks(protected); *got != protected {
		t.Errorf("marks %+v, want %+v", *got, protected)
	}
	own := cluster.Marks{Observed: new("app"), Criticality: gold.Criticality}
	if a, b := in.marks(own), in.marks(own); a == b {
		t.Error("pods with an annotation share their marks")
	}
	if in.marks(cluster.Marks{}) != nil {
		t.Error("a pod that says nothing has marks")
	}
}
