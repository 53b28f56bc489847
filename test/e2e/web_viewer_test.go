// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// viewedShop is the namespace of the two viewers. The test writes the recommendations and the stored usage in it.
const viewedShop = "web-of-a-viewer"

// viewers have rights in one namespace only: one the ClusterRole view of Kubernetes, the other one no right to stored usage.
const viewers = `apiVersion: v1
kind: ServiceAccount
metadata: {name: web-view, namespace: kube-system}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: web-without-usage, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: web-view}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: ServiceAccount, name: web-view, namespace: kube-system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: web-without-usage}
rules:
- {apiGroups: ["", apps, batch, policy, autoscaling], resources: ["*"], verbs: [get, list, watch]}
- {apiGroups: [autoscaling.k8s.io], resources: [verticalpodautoscalers], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: web-without-usage}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: web-without-usage}
subjects: [{kind: ServiceAccount, name: web-without-usage, namespace: kube-system}]
`

// title is the title of a section of a page.
var title = regexp.MustCompile(`<h2 id="(risk|savings)">([^<]*)</h2>`)

// titles returns what the overview says about risks and about what could be given back.
func titles(ctx context.Context, address string) (string, error) {
	status, body, err := fetched(ctx, address, "/", "")
	if err != nil || status != http.StatusOK {
		return "", errors.Join(err, fmt.Errorf("status %d", status))
	}
	var out []string
	for _, found := range title.FindAllStringSubmatch(body, -1) {
		out = append(out, html.UnescapeString(found[2]))
	}
	return strings.Join(out, " | "), nil
}

// TestWeb_viewerOfOneNamespace_seesWhatTheAdminSeesOrThatItIsNotKnown compares the page of an admin with those of two viewers, with tokens of
// a real API server. The role view is enough for the same statements, although it does not include SizingProfiles, nodes and leases. Without
// the right to stored usage, nothing is said about risks and nothing is recommended.
func TestWeb_viewerOfOneNamespace_seesWhatTheAdminSeesOrThatItIsNotKnown(t *testing.T) {
	t.Parallel()
	p := newPlace(t, viewedShop)
	p.apply(viewers)
	for name, cpu := range map[string]string{"small": "20m", "large": "300m"} {
		w := spec{Name: name, Replicas: 1, CPU: "10m", Memory: "40Mi", Requests: "{cpu: " + cpu + ", memory: 64Mi}"}
		p.apply(w.manifest(), w.autoscaler("Off"), storedDays(name, "app", time.Now()))
		p.start(name, 1)
		p.adviseCPU(name, 95, 100, 110)
	}
	addresses := map[string]string{"admin": p.servePage(p.Kubeconfig, "-n", p.ns)}
	var viewer string // kubeconfig of web-view
	for _, account := range []string{"web-view", "web-without-usage"} {
		kubeconfig, err := p.Identity(t.Context(), account)
		if err != nil {
			t.Fatal(err)
		}
		addresses[account] = p.servePage(kubeconfig, "-n", p.ns)
		if account == "web-view" {
			viewer = kubeconfig
		}
	}
	const known = "At risk: 1 of 2 workloads | Could be given back: 0.2 cores"
	const unknown = "Whether workloads are at risk is not known yet | Could be given back: not known yet"
	for who, want := range map[string]string{"admin": known, "web-view": known, "web-without-usage": unknown} {
		p.eventually("the page of "+who+" is complete", time.Minute, func(ctx context.Context) error {
			got, err := titles(ctx, addresses[who])
			if err == nil && got != want {
				err = fmt.Errorf("its titles are %q, want %q", got, want)
			}
			return err
		})
		for _, name := range []string{"small", "large"} {
			p.eventually("the page of "+who+" has the workload "+name, time.Minute, func(ctx context.Context) error {
				status, body, err := fetched(ctx, addresses[who], "/workloads/"+p.ns+"/Deployment/"+name, "")
				if err != nil || status != http.StatusOK {
					return errors.Join(err, fmt.Errorf("status %d", status)) // the titles are the same before the cluster has been read
				}
				praise := []string{`id="yaml"`, "No risk is known.", "need no change", "There is nothing to change."}
				if want == unknown && slices.ContainsFunc(praise, func(text string) bool { return strings.Contains(body, text) }) {
					t.Errorf("%s, %s: the page offers a patch or praises what is not known:\n%s", who, name, body)
				}
				if patch := strings.Contains(body, `id="yaml"`); patch != (want == known) {
					return fmt.Errorf("it offers a patch: %v", patch)
				}
				if reason := strings.Contains(body, "ot judged yet: its stored usage could not be read."); reason != (want == unknown) {
					return fmt.Errorf("it says that the workload is not judged: %v", reason)
				}
				return nil
			})
		}
	}
	for _, page := range []string{"/", "/nodes"} {
		_, body, err := fetched(t.Context(), addresses["web-view"], page, "")
		if err != nil || !strings.Contains(body, "podfit may not list nodes") {
			t.Errorf("%s of web-view does not say that nodes are not known: %v", page, err)
		}
	}
	// A report needs the same rights. What is not known is named, and the exit code is 0.
	report := string(p.reported(viewer, "table"))
	_, got, _ := strings.Cut(report, "AT RISK")
	_, want, found := strings.Cut(string(p.reported(p.Kubeconfig, "table")), "AT RISK")
	if !found || got != want {
		t.Errorf("the report of web-view has\n%s\nwant the workloads of the admin\n%s", got, want)
	}
	for _, note := range []string{"No right to list nodes", "No right to list SizingProfiles"} {
		if !strings.Contains(report, note) {
			t.Errorf("the report of web-view does not say %q:\n%s", note, report)
		}
	}
}
