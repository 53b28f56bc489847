// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/test/e2e/bed"
)

// history returns the UsageHistory of a Deployment.
func (p *place) history(ctx context.Context, name string) (*v1alpha1.UsageHistory, error) {
	gvr := v1alpha1.GroupVersion().WithResource(v1alpha1.ResourceUsageHistories)
	u, err := p.Dynamic.Resource(gvr).Namespace(p.ns).Get(ctx, "deployment-"+name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	h := new(v1alpha1.UsageHistory)
	return h, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, h)
}

// carried returns the length of a checkpoint's model state annotation.
func (p *place) carried(ctx context.Context, name string) (int, error) {
	c, err := p.checkpoint(ctx, name)
	if err != nil {
		return 0, err
	}
	return len(c.Annotations["podfit.dev/window"]), nil
}

// targetMemory returns the memory target of a VPA's only container, in bytes.
func (p *place) targetMemory(ctx context.Context, name string) (int64, error) {
	a, err := p.Autoscaler(ctx, p.ns, name)
	if err != nil {
		return 0, err
	}
	if a.Status.Recommendation == nil || len(a.Status.Recommendation.ContainerRecommendations) != 1 {
		return 0, fmt.Errorf("the recommendation of %s is %v", name, a.Status.Recommendation)
	}
	return a.Status.Recommendation.ContainerRecommendations[0].Target.Memory().Value(), nil
}

// restartRecommender kills the recommender and starts it again.
func (p *place) restartRecommender(args ...string) {
	p.Helper()
	p.recommender.Kill()
	p.recommendBy(recommender().With(args...))
}

// recommendBy starts the recommender of all tests. The last one must have ended.
func (p *place) recommendBy(c bed.Component) {
	p.Helper()
	r, err := p.healthy(context.Background(), c)
	if err != nil {
		p.Fatal(err)
	}
	p.recommender = r
}

const balancedAutoscaler = `
apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata: {name: steady}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: steady}
  recommenders: [{name: %s}]
  updatePolicy: {updateMode: "Off"}
`

// TestUsageHistories_killAndProfileChange_keepModelState checks the model state of a profile: it is stored in a UsageHistory, survives
// a kill, is stored in the checkpoint while the CRD is missing, then in a UsageHistory again, and is removed at the end.
func TestUsageHistories_killAndProfileChange_keepModelState(t *testing.T) {
	p := newPlace(t, "histories")
	install := func(ctx context.Context) {
		if err := p.Install(ctx, filepath.Join(p.root, "deploy")); err != nil {
			t.Error(err)
		}
	}
	p.restartRecommender("--checkpoints-gc-interval=10s")
	t.Cleanup(func() {
		install(context.Background())
		p.restartRecommender()
	})

	w := steady("steady")
	p.apply(w.manifest(), fmt.Sprintf(balancedAutoscaler, "balanced"))
	stored := func(h **v1alpha1.UsageHistory) func(context.Context) error {
		return func(ctx context.Context) (err error) {
			if *h, err = p.history(ctx, "steady"); err != nil {
				return err
			}
			if s := (*h).Status; s.Containers != 1 || s.Size < 100 || len(s.Histories) != 1 {
				return fmt.Errorf("the UsageHistory has %d containers and %d bytes", s.Containers, s.Size)
			}
			return nil
		}
	}
	var first, later *v1alpha1.UsageHistory
	p.eventually("the model state is stored", measured, stored(&first))
	if target := first.Spec.Target; target != (v1alpha1.WorkloadReference{Group: "apps", Kind: "Deployment", Name: "steady"}) {
		t.Errorf("the UsageHistory has the target %+v", target)
	}
	p.eventually("the checkpoint has no model state", measured, func(ctx context.Context) error {
		n, err := p.carried(ctx, "steady-app")
		if err == nil && (n == 0 || n > 200) {
			err = fmt.Errorf("the annotation has %d characters", n)
		}
		return err
	})
	p.printed(t)
	before, err := p.targetMemory(t.Context(), "steady")
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range p.start("steady", 2) { // from now on, only the model state contains the 200Mi
		patch := []byte(`{"metadata":{"annotations":{"sim.podfit.dev/app.memory":"60Mi"}}}`)
		if _, err := p.CoreV1().Pods(p.ns).Patch(t.Context(), pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	remembered := func(ctx context.Context) error {
		now, err := p.targetMemory(ctx, "steady")
		if err == nil && now < before*9/10 {
			err = fmt.Errorf("the target changed from %d to %d bytes", before, now)
		}
		return err
	}
	raw, err := json.Marshal(first)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes of data, %d as JSON, with managed fields", first.Status.Size, len(raw))

	p.restartRecommender("--checkpoints-gc-interval=10s")
	p.always("nothing is forgotten", 20*time.Second, func(ctx context.Context) error {
		if err := stored(&later)(ctx); err != nil {
			return err
		}
		if later.UID != first.UID {
			return errors.New("the UsageHistory was deleted and created again")
		}
		return remembered(ctx)
	})

	crds := p.Dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	crd := v1alpha1.ResourceUsageHistories + "." + v1alpha1.GroupName
	if err := crds.Delete(t.Context(), crd, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.eventually("the checkpoint contains the model state", 2*measured, func(ctx context.Context) error {
		n, err := p.carried(ctx, "steady-app")
		if err == nil && n < 250 {
			err = fmt.Errorf("the annotation has %d characters", n)
		}
		return err
	})
	// While the API server deletes the objects of the CRD, it refuses writes for another reason.
	p.eventually("the log names the remedy exactly once", 2*measured, func(context.Context) error {
		if n := strings.Count(p.recommender.Tail(500), "podfit crds | kubectl apply --server-side --force-conflicts -f -"); n != 1 {
			return fmt.Errorf("the remedy is in the log %d times", n)
		}
		return nil
	})
	p.restartRecommender("--checkpoints-gc-interval=10s")
	p.always("nothing is forgotten", 20*time.Second, remembered)

	p.eventually("the CRD is deleted", time.Minute, func(ctx context.Context) error {
		_, err := crds.Get(ctx, crd, metav1.GetOptions{})
		if err == nil {
			return errors.New("the CRD still exists")
		}
		return ignoreNotFound(err)
	})
	install(t.Context())
	p.eventually("the model state is stored in a UsageHistory again", 2*measured, stored(&later))
	p.eventually("the checkpoint no longer contains the model state", 2*measured, func(ctx context.Context) error {
		n, err := p.carried(ctx, "steady-app")
		if err == nil && n > 200 {
			err = fmt.Errorf("the annotation has %d characters", n)
		}
		return err
	})

	p.apply(fmt.Sprintf(balancedAutoscaler, "default"))
	p.eventually("the UsageHistory is removed", time.Minute, func(ctx context.Context) error {
		if _, err := p.history(ctx, "steady"); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the UsageHistory still exists; %w", err)
		}
		return nil
	})
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// printed checks the columns of kubectl get.
func (p *place) printed(t *testing.T) {
	t.Helper()
	raw, err := p.CoreV1().RESTClient().Get().AbsPath("/apis", v1alpha1.GroupName, "v1alpha1", "namespaces", p.ns, v1alpha1.ResourceUsageHistories).
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
	if !slices.Equal(columns, []string{"Name", "Kind", "Target", "Containers", "Size", "Updated", "Age"}) || len(table.Rows) != 1 {
		t.Fatalf("kubectl get prints the columns %v and %d rows", columns, len(table.Rows))
	}
	if got := fmt.Sprint(table.Rows[0].Cells[:4]); got != "[deployment-steady Deployment steady 1]" {
		t.Errorf("kubectl get prints %s", got)
	}
}
