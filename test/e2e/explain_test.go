// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// A reader is a user with the rights to get and list, and nothing else.
const reader = `apiVersion: v1
kind: ServiceAccount
metadata: {name: explain-reader, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: explain-reader}
rules:
- {apiGroups: ["*"], resources: ["*"], verbs: [get, list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: explain-reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: explain-reader}
subjects: [{kind: ServiceAccount, name: explain-reader, namespace: kube-system}]
`

// An explained is the part of the output of podfit explain that the tests read.
type explained struct {
	At         time.Time
	Situations []struct{ Code string }
	Now        []string
	Next       []struct {
		Pods                 []string
		Action, Code, Reason string
		Waits                bool
		NotBefore            time.Time
	}
	You     []struct{ Text, Command string }
	History []string
	Runs    []struct{ CPU, Memory int64 }
	Why     []struct {
		Resource string
		Steps    []struct{ Text string }
	}
}

// explain runs podfit explain with an identity.
func (p *place) explain(ctx context.Context, kubeconfig, object string, args ...string) (explained, error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, p.binary, append([]string{"explain", object, "-n", p.ns, "--kubeconfig", kubeconfig, "-o", "json", "--updater-interval=5s"}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return explained{}, fmt.Errorf("%w: %s", err, errs.String())
	}
	var e explained
	return e, json.Unmarshal(out.Bytes(), &e)
}

// TestExplain_singleReplica_nextAndYouAreWhatHappens checks on a real cluster that what NEXT contains is what the updater does, and that the
// command of YOU has the effect that it is for, with rights to get and list only.
func TestExplain_singleReplica_nextAndYouAreWhatHappens(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "explain")
	p.apply(reader)
	kubeconfig, err := p.Identity(t.Context(), "explain-reader")
	if err != nil {
		t.Fatal(err)
	}
	w := steady("steady")
	w.Replicas = 1
	p.apply(w.manifest(), w.autoscaler("Recreate"))
	old := p.start("steady", 1)
	var e explained
	p.eventually("the pod waits because it is the only one", measured, func(ctx context.Context) (err error) {
		if e, err = p.explain(ctx, kubeconfig, "deploy/steady"); err != nil {
			return err
		}
		if len(e.Next) != 1 || !e.Next[0].Waits || e.Next[0].Code != "TooFewReplicas" || !slices.Equal(e.Next[0].Pods, []string{old[0].Name}) {
			return fmt.Errorf("NEXT is %+v", e.Next)
		}
		return nil
	})
	if !slices.ContainsFunc(e.Situations, func(s struct{ Code string }) bool { return s.Code == "SingleReplica" }) {
		t.Errorf("situations %+v, want SingleReplica", e.Situations)
	}
	p.eventually("the running updater has recorded the same", resized, func(ctx context.Context) error {
		if e, err = p.explain(ctx, kubeconfig, "vpa/steady"); err != nil {
			return err
		}
		if !strings.Contains(strings.Join(e.Now, " "), "recorded that 1 pod waits for TooFewReplicas") {
			return fmt.Errorf("NOW is %q", e.Now)
		}
		return nil
	})
	p.always("the pod that waits is left", 12*time.Second, p.same("steady", old))

	patch := ""
	for _, advice := range e.You {
		if _, found, ok := strings.Cut(advice.Command, "minReplicas"); ok && found != "" {
			_, patch, _ = strings.Cut(advice.Command, " -p ")
		}
	}
	gvr := schema.GroupVersionResource{Group: "autoscaling.k8s.io", Version: "v1", Resource: "verticalpodautoscalers"}
	if _, err := p.Dynamic.Resource(gvr).Namespace(p.ns).Patch(t.Context(), "steady", types.MergePatchType, []byte(strings.Trim(patch, "'")), metav1.PatchOptions{}); err != nil {
		t.Fatalf("the patch of %+v: %v", e.You, err)
	}
	var now []corev1.Pod
	p.eventually("the pod is replaced", resized, func(ctx context.Context) (err error) {
		if now, err = p.running(ctx, "steady", 1); err != nil {
			return err
		}
		if now[0].UID == old[0].UID {
			return fmt.Errorf("pod %s still runs", old[0].Name)
		}
		return nil
	})
	p.eventually("the new pod needs no change", resized, func(ctx context.Context) error {
		if e, err = p.explain(ctx, kubeconfig, "pod/"+now[0].Name); err != nil {
			return err
		}
		if len(e.Next) != 1 || e.Next[0].Waits || e.Next[0].Action != "leave" {
			return fmt.Errorf("NEXT is %+v", e.Next)
		}
		return nil
	})
}
