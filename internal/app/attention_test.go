// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// namesake applies a Deployment with one pod that was OOM-killed, in a namespace.
func (s *shop) namesake(namespace, name string) {
	s.t.Helper()
	s.apply(deployments, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":%q,"name":%q}}`, namespace, name)
	s.apply(replicaSets, `{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"namespace":%q,"name":"%s-1","ownerReferences":[
		{"apiVersion":"apps/v1","kind":"Deployment","name":%q,"uid":"d","controller":true}]},"spec":{"replicas":1}}`, namespace, name, name)
	o := map[string]any{}
	if err := json.Unmarshal([]byte(fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":%q,"name":"%s-1-0","uid":"%s-%s","creationTimestamp":"2026-01-01T00:00:00Z",
		"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"%s-1","uid":"r","controller":true}]},
		"spec":{"nodeName":"n1","containers":[{"name":"app","resources":{"requests":{"cpu":"100m","memory":"64Mi"},"limits":{"memory":"64Mi"}}}]},"status":{"phase":"Running"}}`,
		namespace, name, namespace, name, name)), &o); err != nil {
		s.t.Fatal(err)
	}
	killed := map[string]any{}
	if err := json.Unmarshal([]byte(oom(0)), &killed); err != nil {
		s.t.Fatal(err)
	}
	merge(o, killed)
	pod, err := json.Marshal(o)
	if err != nil {
		s.t.Fatal(err)
	}
	s.api.Apply(podsPath, string(pod))
}

func TestExplain_noArgument_listsWorkloadsThatNeedAttention(t *testing.T) {
	s := newShop(t, 2)
	s.namesake("pay", "till")
	const till = "HIGH  pay/Deployment/till\n"
	const why = "  Container app: killed for memory at least 1× since "
	const explain = "    podfit explain deploy/till -n pay\n"
	const cart = "MEDIUM  shop/Deployment/cart\n  Container app: CPU request 33 % below need; memory request 20 % below need\n    podfit explain deploy/cart -n shop\n"
	got := s.text()
	if want := "Workloads that need attention: 2 of 2\n" + till + why; !strings.HasPrefix(got, want) || !strings.HasSuffix(got, explain+cart) {
		t.Errorf("got\n%s\nwant the prefix\n%s\nand the suffix\n%s", got, want, explain+cart)
	}
	if got := s.text("-n", "shop"); got != "Workloads that need attention: 1 of 1\n"+cart {
		t.Errorf("in namespace shop:\n%s", got)
	}
	for i := range 9 {
		s.namesake("pay", fmt.Sprintf("till-%d", i))
	}
	got = s.text()
	if lines := strings.Count(got, "\n"); lines > 30 || !strings.Contains(got, "attention: 11 of 11\n") || !strings.Contains(got, "\n5 more: podfit explain -o json\n") {
		t.Errorf("%d lines, want at most 30 with the number of further workloads:\n%s", lines, got)
	}
	for i := range 2 {
		s.pod(i, oom(0))
	}
	var all struct {
		Workloads int
		Attention []struct{ Workload, Severity, Why, Command string }
	}
	if err := json.Unmarshal([]byte(s.text("-o", "json")), &all); err != nil || all.Workloads != 11 || len(all.Attention) != 11 {
		t.Fatalf("error %v, %+v", err, all)
	}
	for _, n := range all.Attention {
		if n.Severity != "high" || !strings.HasPrefix(n.Why, "Container app: ") || !strings.HasPrefix(n.Command, "podfit explain deploy/") {
			t.Errorf("%+v", n)
		}
	}
	for _, r := range s.sent() {
		if !strings.HasPrefix(r, "GET ") || strings.Contains(r, "watch=") {
			t.Errorf("request %s", r)
		}
	}
}

func TestExplain_noArgument_saysWhatWasNotRead(t *testing.T) {
	const denied = `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden","message":"forbidden"}`
	for path, want := range map[string]string{
		podsPath: "Note: You may not list the pods of all namespaces, so only namespace shop was read",
		"/apis/podfit.dev/v1alpha1/namespaces/shop/usagehistories": "Not judged: 1 workload (its stored usage could not be read) Note: read the usage histories of namespace shop: forbidden",
	} {
		s := newShop(t, 1)
		s.api.Reply("GET "+path, 403, denied)
		if got := strings.Join(strings.Fields(s.text()), " "); !strings.Contains(got, want) {
			t.Errorf("%s: no %q in\n%s", path, want, got)
		}
	}
}

func TestExplain_objectIsInOtherNamespaces_errorNamesThem(t *testing.T) {
	s := newShop(t, 1)
	s.namesake("pay", "till")
	s.namesake("web", "till")
	s.namesake("shop", "cart")
	s.apply(deployments, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"web","name":"idle"}}`)
	for line, want := range map[string]string{
		"deploy/till":         `podfit: there is no Deployment "till" in namespace shop; found in pay and web: podfit explain deploy/till -n pay`,
		"deploy/cart -n none": `there is no Deployment "cart" in namespace none; found in shop: podfit explain deploy/cart -n shop`,
		"pod/till-1-0 -n web": "",
		"pod/till-1-0":        `found in pay and web: podfit explain pod/till-1-0 -n pay`,
		"vpa/cart -n pay":     `found in shop: podfit explain vpa/cart -n shop`,
		"rs/till-1":           `found in pay and web: podfit explain rs/till-1 -n pay`,
		"deploy/idle":         `found in web: podfit explain deploy/idle -n web`,
		"sts/till":            `there is no StatefulSet "till" in namespace shop; select the namespace with -n`,
	} {
		_, stderr, code := s.explain(strings.Fields(line)...)
		if want == "" && code != exitOK || want != "" && (code != exitError || !strings.Contains(stderr, want)) {
			t.Errorf("podfit explain %s: exit code %d and %q, want %q", line, code, stderr, want)
		}
	}
	s.api.Reply("GET "+podsPath, 403, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden","message":"forbidden"}`)
	_, stderr, _ := s.explain("deploy/till")
	if want := `there is no Deployment "till" in namespace shop; select the namespace with -n (other namespaces were not searched: you may not list their pods)`; !strings.Contains(stderr, want) {
		t.Errorf("without rights: %q, want %q", stderr, want)
	}
}
