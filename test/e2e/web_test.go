// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/test/e2e/bed"
)

// webAccounts are the account of the page, which may read the cluster and ask the API server about viewers, and four viewers: of
// one namespace, of all, of none, and of one namespace and all VPAs.
const webAccounts = `apiVersion: v1
kind: ServiceAccount
metadata: {name: web-server, namespace: kube-system}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: web-one}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: web-all}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: web-none}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: web-vpas}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: web-server}
rules:
- {apiGroups: ["*"], resources: ["*"], verbs: [get, list, watch]}
- {apiGroups: [authentication.k8s.io], resources: [tokenreviews], verbs: [create]}
- {apiGroups: [authorization.k8s.io], resources: [subjectaccessreviews], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: web-server}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: web-server}
subjects: [{kind: ServiceAccount, name: web-server, namespace: kube-system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: web-viewer}
rules:
- {apiGroups: [autoscaling.k8s.io], resources: [verticalpodautoscalers], verbs: [list]}
- {apiGroups: [""], resources: [pods], verbs: [list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: web-all}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: web-viewer}
subjects: [{kind: ServiceAccount, name: web-all, namespace: web-seen}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: web-one}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: web-viewer}
subjects:
- {kind: ServiceAccount, name: web-one, namespace: web-seen}
- {kind: ServiceAccount, name: web-vpas, namespace: web-seen}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: web-vpas}
rules:
- {apiGroups: [autoscaling.k8s.io], resources: [verticalpodautoscalers], verbs: [list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: web-vpas}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: web-vpas}
subjects: [{kind: ServiceAccount, name: web-vpas, namespace: web-seen}]
`

// token returns a token of a service account.
func (p *place) token(account string) string {
	p.Helper()
	r, err := p.CoreV1().ServiceAccounts(p.ns).CreateToken(p.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		p.Fatal(err)
	}
	return r.Status.Token
}

// fetched returns the status and the body of a page for the holder of a token.
func fetched(ctx context.Context, address, path, token string) (int, string, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// servePage serves the page with an identity until the test ends, and returns its address.
func (p *place) servePage(kubeconfig string, flags ...string) string {
	p.Helper()
	port, err := bed.FreePort()
	if err != nil {
		p.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	server, err := bed.Start(bed.Command{
		Name: "web", Path: p.binary, Log: filepath.Join(p.TempDir(), "web.log"), Env: []string{"KUBERNETES_SERVICE_HOST="},
		Args: append([]string{"web", "--kubeconfig=" + kubeconfig, "--web-address=" + address}, flags...),
	})
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() {
		if p.Failed() {
			p.Log(server.Tail(40))
		}
		server.Kill()
	})
	return address
}

// TestWeb_tokenOfServiceAccount_showsOnlyItsNamespaces checks the page with real reviews of tokens and rights by the API server.
func TestWeb_tokenOfServiceAccount_showsOnlyItsNamespaces(t *testing.T) {
	t.Parallel()
	p, other := newPlace(t, "web-seen"), newPlace(t, "web-hidden")
	for _, at := range []*place{p, other} {
		w := steady("steady")
		at.apply(w.manifest(), w.autoscaler("Off"))
		at.start("steady", 2)
	}
	changed := steady("changed")
	p.apply(changed.manifest(), changed.othersAutoscaler("InPlaceOrRecreate"))
	p.start("changed", 2)
	p.advise("350m", "262144k", "changed")
	p.apply(webAccounts)
	one, all, none, vpas := p.token("web-one"), p.token("web-all"), p.token("web-none"), p.token("web-vpas")
	kubeconfig, err := p.Identity(t.Context(), "web-server")
	if err != nil {
		t.Fatal(err)
	}
	address := p.servePage(kubeconfig, "--web-auth=token")

	seen := func(token string) ([]string, error) {
		status, body, err := fetched(t.Context(), address, "/workloads?format=json&q=steady", token)
		if err != nil || status != http.StatusOK {
			return nil, fmt.Errorf("status %d, %w", status, err)
		}
		var page struct {
			Workloads []struct{ Namespace, Name string }
		}
		if err := json.Unmarshal([]byte(body), &page); err != nil {
			return nil, err
		}
		var out []string
		for _, w := range page.Workloads {
			if strings.HasPrefix(w.Namespace, "web-") {
				out = append(out, w.Namespace)
			}
		}
		slices.Sort(out)
		return out, nil
	}
	p.eventually("a viewer of all namespaces sees both", 30*time.Second, func(context.Context) error {
		got, err := seen(all)
		if err == nil && !slices.Equal(got, []string{"web-hidden", "web-seen"}) {
			err = fmt.Errorf("it sees %q", got)
		}
		return err
	})
	for name, token := range map[string]string{"web-seen": one, "web-seen and of all VPAs": vpas} {
		if got, err := seen(token); err != nil || !slices.Equal(got, []string{"web-seen"}) {
			t.Errorf("the viewer of %s sees %q, %v", name, got, err)
		}
	}
	for _, page := range []string{"/", "/workloads", "/nodes", "/activity", "/profiles", "/about", "/workloads/web-seen/Deployment/steady"} {
		for _, form := range []string{"", "?format=json", "?save=1"} {
			status, body, err := fetched(t.Context(), address, page+form, one)
			if err != nil || status != http.StatusOK || strings.Contains(body, "web-hidden") || strings.Contains(body, "node-1") {
				t.Errorf("%s: status %d, %v, with another namespace: %v, with a node: %v", page+form, status, err, strings.Contains(body, "web-hidden"), strings.Contains(body, "node-1"))
			}
		}
	}
	p.eventually("the activity has the reason and the amounts of a resize of another process", resized, func(context.Context) error {
		status, body, err := fetched(t.Context(), address, "/activity?format=json&action=resize", one)
		for _, want := range []string{`"reason": "BelowRange"`, "app CPU 100m → 350m", "is below the lower bound", `"workload": "Deployment/changed"`} {
			if err == nil && !strings.Contains(body, want) {
				err = fmt.Errorf("status %d, no %s in %s", status, want, body)
			}
		}
		return err
	})
	for name, tt := range map[string]struct {
		path, token string
		want        int
	}{
		"another namespace": {"/workloads/web-hidden/Deployment/steady", one, http.StatusNotFound},
		"no token":          {"/", "", http.StatusUnauthorized},
		"no real token":     {"/", one + "x", http.StatusUnauthorized},
		"no rights":         {"/", none, http.StatusForbidden},
		"all namespaces":    {"/workloads/web-hidden/Deployment/steady", all, http.StatusOK},
	} {
		if status, _, err := fetched(t.Context(), address, tt.path, tt.token); err != nil || status != tt.want {
			t.Errorf("%s: status %d, %v, want %d", name, status, err, tt.want)
		}
	}
}
