// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestJournal_forget_keepsTheLastStateOfWhatExists(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	j := NewJournal()
	saw := func(name string, second int, gone bool) {
		j.Saw(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}, start.Add(time.Duration(second)*time.Second), gone)
	}
	saw("gone", 0, false)
	saw("lives", 1, false)
	saw("lives", 2, false)
	saw("gone", 3, true)
	saw("changed", 4, false)
	saw("changed", 10, false)
	line := func(second int) string {
		return fmt.Sprintf(`{"verb":"create","objectRef":{"resource":"pods","subresource":"eviction","name":"a"},"requestReceivedTimestamp":%q}`,
			start.Add(time.Duration(second)*time.Second).Format(time.RFC3339))
	}
	for _, second := range []int{1, 10} {
		if err := j.Audit([]byte(line(second))); err != nil {
			t.Fatal(err)
		}
	}
	j.Forget(start.Add(9 * time.Second))
	var got []string
	for _, p := range j.Log().Pods {
		got = append(got, fmt.Sprint(p.Name, p.At.Sub(start)))
	}
	if want := []string{"lives2s", "changed4s", "changed10s"}; !slices.Equal(got, want) {
		t.Errorf("states of pods %v, want %v", got, want)
	}
	if writes := j.Log().Writes; len(writes) != 1 || !writes[0].At.Equal(start.Add(10*time.Second)) {
		t.Errorf("writes %v, want the last one", writes)
	}
}
