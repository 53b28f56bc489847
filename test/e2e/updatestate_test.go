// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/api/podfit/v1alpha1"
)

// updateRecord contains some of the records in an UpdateState, as others can read them.
type updateRecord struct {
	Status struct {
		Writer      string
		ActingSince *metav1.MicroTime
		Canary      *struct{ Phase string }
		Pods        []struct {
			Name, UID, Action, Outcome, Message string
			Attempts                            int32
			LastTime                            metav1.MicroTime
			NextTime                            *metav1.Time
			Requested                           []struct{ Container string }
		}
	}
}

// updateState returns the UpdateState of a Deployment.
func (p *place) updateState(ctx context.Context, name string) (*updateRecord, error) {
	gvr := v1alpha1.GroupVersion().WithResource(v1alpha1.ResourceUpdateStates)
	u, err := p.Dynamic.Resource(gvr).Namespace(p.ns).Get(ctx, "deployment-"+name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	raw, err := u.MarshalJSON()
	if err != nil {
		return nil, err
	}
	s := new(updateRecord)
	return s, json.Unmarshal(raw, s)
}

// refusedAttempts returns the sum of the attempts in an UpdateState, and the time of the last one.
func refusedAttempts(s *updateRecord) (sum int32, last time.Time) {
	for _, p := range s.Status.Pods {
		if p.Outcome == "DisruptionBudget" {
			sum += p.Attempts
			last = p.LastTime.Time
		}
	}
	return sum, last
}

// TestUpdateStates_updaterIsKilled_backOffIsKept checks that refused evictions are stored with their outcome, that a killed updater does
// not repeat them before their time, and that the object is deleted when there is nothing to store.
func TestUpdateStates_updaterIsKilled_backOffIsKept(t *testing.T) {
	p := newPlace(t, "update-states")
	w := steady("steady")
	p.apply(w.manifest(), budget("steady", "maxUnavailable: 0"), w.autoscaler("Recreate"))
	old := p.start("steady", 2)
	var first *updateRecord
	p.eventually("the refused eviction is stored", measured+resized, func(ctx context.Context) (err error) {
		if first, err = p.updateState(ctx, "steady"); err != nil {
			return err
		}
		if n, _ := refusedAttempts(first); n < 2 || first.Status.ActingSince != nil {
			return fmt.Errorf("%d attempts, acting since %v", n, first.Status.ActingSince)
		}
		return nil
	})
	entry := first.Status.Pods[0]
	if entry.Name == "" || entry.UID == "" || entry.Action != "Evict" || entry.Message == "" || entry.NextTime == nil || len(entry.Requested) != 1 || first.Status.Writer == "" {
		t.Errorf("the entry is %+v", entry)
	}
	p.printsUpdateStates(t)

	tried := p.attempts(old[0].Name, "eviction") + p.attempts(old[1].Name, "eviction")
	killed := time.Now()
	for range 3 {
		p.updater.Kill()
		again, err := p.healthy(t.Context(), updater())
		if err != nil {
			t.Fatal(err)
		}
		p.updater = again
		p.always("nothing is evicted against the budget", 6*time.Second, p.same("steady", old))
	}
	// Without the stored state, each start would try both pods again at once.
	passed := int(time.Since(killed)/time.Minute) + 1
	if n := p.attempts(old[0].Name, "eviction") + p.attempts(old[1].Name, "eviction") - tried; n > 2*passed {
		t.Errorf("%d attempts in %d minutes and three restarts, want at most %d", n, passed, 2*passed)
	}
	now, err := p.updateState(t.Context(), "steady")
	if err != nil {
		t.Fatal(err)
	}
	before, _ := refusedAttempts(first)
	if after, _ := refusedAttempts(now); after < before {
		t.Errorf("%d attempts are stored after the restarts, %d before", after, before)
	}

	if err := p.PolicyV1().PodDisruptionBudgets(p.ns).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	p.apply(w.autoscaler("Off"))
	p.updater.Kill() // after a start, objects without content are deleted at once
	again, err := p.healthy(t.Context(), updater())
	if err != nil {
		t.Fatal(err)
	}
	p.updater = again
	p.eventually("the object is deleted", resized, func(ctx context.Context) error {
		_, err := p.updateState(ctx, "steady")
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it exists: %v", err)
	})
}

// printsUpdateStates checks the columns that kubectl prints.
func (p *place) printsUpdateStates(t *testing.T) {
	t.Helper()
	raw, err := p.CoreV1().RESTClient().Get().AbsPath("/apis", v1alpha1.GroupName, "v1alpha1", "namespaces", p.ns, v1alpha1.ResourceUpdateStates).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var table metav1.Table
	if err := json.Unmarshal(raw, &table); err != nil {
		t.Fatal(err)
	}
	var columns []string
	for _, c := range table.ColumnDefinitions {
		columns = append(columns, c.Name)
	}
	if !slices.Equal(columns, []string{"Name", "Kind", "Target", "Last pod", "Action", "Outcome", "Attempts", "Next", "Updated"}) || len(table.Rows) != 1 {
		t.Fatalf("kubectl prints the columns %v, and %d rows", columns, len(table.Rows))
	}
	cells := table.Rows[0].Cells
	if got := fmt.Sprint(cells[:3], cells[4:6]); got != "[deployment-steady Deployment steady] [Evict DisruptionBudget]" {
		t.Errorf("kubectl prints %s", got)
	}
}
