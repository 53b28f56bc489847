// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/test/kubetest"
)

const (
	templates     = "/api/v1/podtemplates"
	requests      = provisioningPath + "/provisioningrequests"
	shopTemplates = "/api/v1/namespaces/shop/podtemplates"
	shopRequests  = provisioningPath + "/namespaces/shop/provisioningrequests"
)

// provisioningShop returns an API server with one pod, and the pod.
func provisioningShop(t *testing.T) (*kubetest.FakeAPI, *ProvisioningRequests, *cluster.Pod) {
	t.Helper()
	f := kubetest.NewFakeAPI(t)
	f.ApplyPod("shop", "web-1-0", "ReplicaSet", "web-1")
	p := podToMove()
	p.UID, _ = kubetest.MetaOf(f.Object("/api/v1/pods", "shop/web-1-0"))["uid"].(string)
	return f, NewProvisioningRequests(clientsOf(f), ProvisioningClass, "pause"), p
}

func (q *ProvisioningRequests) states(t *testing.T) []string {
	t.Helper()
	all, err := q.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for i := range all {
		out = append(out, fmt.Sprint(all[i].State, " ", all[i].Size, " ", all[i].Text))
	}
	return out
}

func TestProvisioningRequests_pod_getsRequestThatMatchesTheSchema(t *testing.T) {
	f, q, p := provisioningShop(t)
	if err := q.Create(t.Context(), p, cluster.Amounts(2500, 1<<30)); err != nil {
		t.Fatal(err)
	}
	key := cluster.PlaceholderOf(p)
	request, template := f.Object(requests, key.String()), f.Object(templates, key.String())
	if request == nil || template == nil {
		t.Fatalf("request %v, template %v", request, template)
	}
	if problems := schemaProblems(t, request); len(problems) > 0 {
		t.Errorf("the request does not match its CustomResourceDefinition: %q", problems)
	}
	spec, _ := request["spec"].(map[string]any)
	want := map[string]any{
		"provisioningClassName": ProvisioningClass,
		"podSets":               []any{map[string]any{"count": 1.0, "podTemplateRef": map[string]any{"name": key.Name}}},
	}
	if diff := cmp.Diff(want, spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	for name, o := range map[string]map[string]any{"request": request, "template": template} {
		owners, _ := json.Marshal(kubetest.MetaOf(o)["ownerReferences"])
		if !strings.Contains(string(owners), `"uid":"`+p.UID+`"`) {
			t.Errorf("the %s is not owned by the pod: %s", name, owners)
		}
	}
	if got, want := q.states(t), []string{"0 cpu=2500m memory=1Gi "}; !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
	if err := q.Create(t.Context(), p, cluster.Amounts(2500, 1<<30)); err != nil {
		t.Errorf("a repeated request: %v", err)
	}
}

// schemaProblems checks an object against the stored CustomResourceDefinition: unknown and missing fields, and patterns.
func schemaProblems(t *testing.T, object map[string]any) []string {
	t.Helper()
	data, err := os.ReadFile("testdata/provisioningrequests-crd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	type schema struct {
		Properties           map[string]any `json:"properties"`
		AdditionalProperties any            `json:"additionalProperties"`
		Required             []string       `json:"required"`
		Items                map[string]any `json:"items"`
		Pattern              string         `json:"pattern"`
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema map[string]any `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(data, &crd); err != nil {
		t.Fatal(err)
	}
	var problems []string
	var check func(path string, value any, raw any)
	check = func(path string, value, raw any) {
		text, _ := json.Marshal(raw)
		var s schema
		_ = json.Unmarshal(text, &s)
		switch v := value.(type) {
		case map[string]any:
			for _, name := range s.Required {
				if v[name] == nil {
					problems = append(problems, path+"."+name+" is missing")
				}
			}
			for name, field := range v {
				known, ok := s.Properties[name]
				switch {
				case ok:
					check(path+"."+name, field, known)
				case len(s.Properties) > 0 && s.AdditionalProperties == nil:
					problems = append(problems, path+"."+name+" is unknown")
				}
			}
		case []any:
			for i, item := range v {
				check(fmt.Sprintf("%s[%d]", path, i), item, s.Items)
			}
		case string:
			if s.Pattern != "" && !regexp.MustCompile(s.Pattern).MatchString(v) {
				problems = append(problems, path+" does not match "+s.Pattern)
			}
		}
	}
	check("", object, crd.Spec.Versions[0].Schema.OpenAPIV3Schema)
	slices.Sort(problems)
	return problems
}

func TestProvisioningRequests_conditions_giveTheState(t *testing.T) {
	condition := func(kind, status string) string {
		return fmt.Sprintf(`{"type":%q,"status":%q,"reason":"R","message":"the text","lastTransitionTime":"2026-03-02T12:00:00Z"}`, kind, status)
	}
	for name, c := range map[string]struct {
		conditions []string
		want       cluster.RequestState
		text       string
	}{
		"none":                      {nil, cluster.RequestWaiting, ""},
		"not accepted":              {[]string{condition("Accepted", "False")}, cluster.RequestWaiting, ""},
		"accepted":                  {[]string{condition("Accepted", "True")}, cluster.RequestAccepted, ""},
		"not provisioned yet":       {[]string{condition("Accepted", "True"), condition("Provisioned", "False")}, cluster.RequestAccepted, ""},
		"provisioned":               {[]string{condition("Accepted", "True"), condition("Provisioned", "True")}, cluster.RequestProvided, ""},
		"failed":                    {[]string{condition("Accepted", "True"), condition("Failed", "True")}, cluster.RequestFailed, "Failed: the text"},
		"provisioned, then revoked": {[]string{condition("Provisioned", "True"), condition("CapacityRevoked", "True")}, cluster.RequestFailed, "CapacityRevoked: the text"},
		"provisioned, then expired": {[]string{condition("Provisioned", "True"), condition("BookingExpired", "True")}, cluster.RequestFailed, "BookingExpired: the text"},
		"unknown condition":         {[]string{condition("Moon", "True")}, cluster.RequestWaiting, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f, q, p := provisioningShop(t)
			if err := q.Create(t.Context(), p, cluster.Amounts(100, 1<<20)); err != nil {
				t.Fatal(err)
			}
			o := f.Object(requests, cluster.PlaceholderOf(p).String())
			var status map[string]any
			_ = json.Unmarshal([]byte(`{"conditions":[`+strings.Join(c.conditions, ",")+`]}`), &status)
			o["status"] = status
			text, _ := json.Marshal(o)
			f.Apply(requests, string(text))
			if problems := schemaProblems(t, o); len(problems) > 0 {
				t.Errorf("the object does not match its CustomResourceDefinition: %q", problems)
			}
			all, err := q.List(t.Context())
			if err != nil || len(all) != 1 || all[0].State != c.want || !strings.HasSuffix(all[0].Text, c.text) || (c.text == "") != (all[0].Text == "") {
				t.Errorf("%+v, error %v; want state %d, text %q", all, err, c.want, c.text)
			}
		})
	}
}

// The updater may be killed between any two writes: what is left is listed as a failed request, and its deletion removes all of it.
func TestProvisioningRequests_killedBetweenWrites_leftoversAreListedAndDeleted(t *testing.T) {
	for name, c := range map[string]struct {
		lost string // the collection whose object does not exist
		want string
	}{
		"creation: no request yet":    {requests, "3 cpu=100m memory=1Mi the ProvisioningRequest was deleted or never created"},
		"deletion: no template":       {templates, "3 none the PodTemplate of the ProvisioningRequest was deleted"},
		"deletion: neither any more":  {"", ""},
		"complete, before a deletion": {"none", "0 cpu=100m memory=1Mi "},
	} {
		t.Run(name, func(t *testing.T) {
			f, q, p := provisioningShop(t)
			if err := q.Create(t.Context(), p, cluster.Amounts(100, 1<<20)); err != nil {
				t.Fatal(err)
			}
			key := cluster.PlaceholderOf(p)
			all, _ := q.List(t.Context())
			switch c.lost {
			case "":
				f.Delete(requests, key.String())
				f.Delete(templates, key.String())
			case "none":
			default:
				f.Delete(c.lost, key.String())
			}
			var want []string
			if c.want != "" {
				want = []string{c.want}
				all, _ = q.List(t.Context())
			}
			if got := q.states(t); !slices.Equal(got, want) {
				t.Errorf("listed %q, want %q", got, want)
			}
			if err := q.Delete(t.Context(), &all[0]); err != nil {
				t.Errorf("delete: %v", err)
			}
			if left := slices.Concat(f.Keys(requests), f.Keys(templates)); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

func TestProvisioningRequests_create_outcomes(t *testing.T) {
	for title, c := range map[string]struct {
		replaced bool // the pod has another UID
		refuses  string
		code     int
		reply    string
		want     error
		left     int // objects
	}{
		"pod was replaced":     {replaced: true, want: kube.ErrNotFound},
		"template over quota":  {refuses: shopTemplates, code: 403, reply: failure(403, "Forbidden", `podtemplates "x" is forbidden: exceeded quota: q`), want: kube.ErrQuota},
		"no permission":        {refuses: shopRequests, code: 403, reply: failure(403, "Forbidden", `no`), want: kube.ErrForbidden},
		"denied by a webhook":  {refuses: shopRequests, code: 400, reply: failure(400, "BadRequest", `admission webhook "g" denied the request: no`), want: kube.ErrDenied},
		"invalid":              {refuses: shopRequests, code: 422, reply: failure(422, "Invalid", "no"), want: kube.ErrInvalid},
		"API is not served":    {refuses: shopRequests, code: 404, reply: failure(404, "NotFound", "the server could not find the requested resource"), want: kube.ErrNotFound},
		"overloaded":           {refuses: shopRequests, code: 503, reply: failure(503, "ServiceUnavailable", "no"), want: kube.ErrBusy},
		"unknown: server fail": {refuses: shopRequests, code: 500, reply: failure(500, "InternalError", "no"), left: 1},
	} {
		t.Run(title, func(t *testing.T) {
			f, q, p := provisioningShop(t)
			if c.replaced {
				p.UID = "u6"
			}
			if c.refuses != "" {
				f.Reply("POST "+c.refuses, c.code, c.reply)
			}
			err := q.Create(t.Context(), p, cluster.Amounts(100, 1<<20))
			if err == nil || c.want != nil && !errors.Is(err, c.want) || c.want == nil && kube.IsRefusal(err) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if left := slices.Concat(f.Keys(requests), f.Keys(templates)); len(left) != c.left {
				t.Errorf("left: %v, want %d", left, c.left)
			}
		})
	}
}

func TestProvisioningRequests_templateOfEarlierAttempt_isReusedOrReplaced(t *testing.T) {
	f, q, p := provisioningShop(t)
	create := func(cpu int64) error { return q.Create(t.Context(), p, cluster.Amounts(cpu, 1<<20)) }
	if err := create(100); err != nil {
		t.Fatal(err)
	}
	key := cluster.PlaceholderOf(p).String()
	f.Delete(requests, key)
	if err := create(100); err != nil || f.Object(requests, key) == nil {
		t.Errorf("same size: %v", err)
	}
	f.Delete(requests, key)
	if err := create(200); !errors.Is(err, kube.ErrBusy) {
		t.Errorf("other size: error %v, want %v", err, kube.ErrBusy)
	}
	if err := create(200); err != nil {
		t.Errorf("other size, next attempt: %v", err)
	}
	if got, want := q.states(t), []string{"0 cpu=200m memory=1Mi "}; !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
}

func TestProvisioningRequests_objectsOfOthers_areNeitherListedNorDeleted(t *testing.T) {
	f, q, p := provisioningShop(t)
	name := cluster.PlaceholderOf(p).Name
	f.Apply(requests, `{"metadata":{"namespace":"shop","name":"batch","uid":"1"},"spec":{}}`)
	f.Apply(requests, `{"metadata":{"namespace":"shop","name":"labelled","uid":"2","labels":{"podfit.dev/placeholder":"true"}},"spec":{}}`)
	f.Apply(requests, `{"metadata":{"namespace":"shop","name":"broken","uid":"3","labels":{"podfit.dev/placeholder":"true"}},"spec":7}`)
	f.Apply(templates, `{"metadata":{"namespace":"shop","name":"`+name+`","uid":"4"}}`)
	if got := q.states(t); len(got) != 0 {
		t.Errorf("listed %q", got)
	}
	if err := q.Create(t.Context(), p, cluster.Amounts(100, 1<<20)); !errors.Is(err, kube.ErrDenied) {
		t.Errorf("error %v, want %v", err, kube.ErrDenied)
	}
	if left := f.Keys(templates); len(left) != 1 {
		t.Errorf("templates %v", left)
	}
}

func TestProvisioningRequests_notAvailable_namesTheProblem(t *testing.T) {
	served := `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"autoscaling.x-k8s.io/v1","resources":[{"name":"provisioningrequests","namespaced":true,"kind":"ProvisioningRequest","verbs":["create"]}]}`
	review := func(allowed bool) string {
		return fmt.Sprintf(`{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","spec":{},"status":{"allowed":%t}}`, allowed)
	}
	for name, c := range map[string]struct {
		code           int
		served, review string
		dryRun         bool
		want           string
		fails          bool
	}{
		"available":                 {200, served, review(true), false, "", false},
		"API is not served":         {404, failure(404, "NotFound", "not found"), "", false, "is not served", false},
		"other kinds of the group":  {200, strings.Replace(served, "provisioningrequests", "capacitybuffers", 1), "", false, "has no provisioningrequests", false},
		"no permission to create":   {200, served, review(false), false, "no permission to create podtemplates", false},
		"dry run checks no further": {200, served, review(false), true, "", false},
		"server fails":              {500, failure(500, "InternalError", "broken"), "", false, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			f := kubetest.NewFakeAPI(t)
			f.Reply("GET "+provisioningPath, c.code, c.served)
			f.Reply(reviews, 201, c.review)
			problem, err := NewProvisioningRequests(clientsOf(f), ProvisioningClass, "pause").Available(t.Context(), c.dryRun)
			if (err != nil) != c.fails || !strings.Contains(problem, c.want) || c.want == "" && problem != "" {
				t.Errorf("problem %q, error %v, want %q", problem, err, c.want)
			}
		})
	}
}

// labelled adds objects with podfit's label to a namespace. If forged is true, they have the annotation and the name of a request.
func labelled(f *kubetest.FakeAPI, collection, namespace string, n int, forged bool) {
	for i := range n {
		uid := fmt.Sprintf("%s-%04d", namespace, i)
		name := fmt.Sprintf("x%04d", i)
		if forged {
			name = cluster.PlaceholderFor(namespace, uid).Name
		}
		f.Apply(collection, fmt.Sprintf(`{"metadata":{"namespace":%q,"name":%q,"labels":{"podfit.dev/placeholder":"true"},"annotations":{"podfit.dev/placeholder-for-uid":%q}}}`,
			namespace, name, uid))
	}
}

// The labels are of the users of a namespace: whoever sets them must not affect the requests of other namespaces.
func TestProvisioningRequests_manyLabelledObjectsOfATenant_othersAreListed(t *testing.T) {
	for name, forged := range map[string]bool{"only labelled": false, "forged requests": true} {
		for collection, kind := range map[string]string{templates: "PodTemplates", requests: "ProvisioningRequests"} {
			f, q, p := provisioningShop(t)
			labelled(f, collection, "aaa", 600, forged)
			if err := q.Create(t.Context(), p, cluster.Amounts(100, 1<<20)); err != nil {
				t.Fatal(err)
			}
			all, err := q.List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			theirs := 0
			for i := range all {
				if all[i].Namespace == "aaa" {
					theirs++
				} else if all[i].State != cluster.RequestWaiting {
					t.Errorf("%s, %s: the request is %v: %s", name, kind, all[i].State, all[i].Text)
				}
			}
			if want := map[bool]int{true: maxPerNamespace}[forged]; theirs != want || len(all) != want+1 {
				t.Errorf("%s, %s: %d requests, %d of the other namespace; want %d of it and one more", name, kind, len(all), theirs, want)
			}
			if pages, query := f.Lists(collection); pages != 4 || !strings.Contains(query, "limit=50") {
				t.Errorf("%s, %s: %d pages, the last with %s; want 4 with limit=50", name, kind, pages, query)
			}
		}
	}
}

// Without a namespace that has too many, the list is read to its end.
func TestProvisioningRequests_objectsOfManyNamespaces_allAreListed(t *testing.T) {
	f, q, _ := provisioningShop(t)
	for i := range 4 {
		labelled(f, requests, fmt.Sprint("ns-", i), maxPerNamespace, true)
	}
	all, err := q.List(t.Context())
	if pages, _ := f.Lists(requests); err != nil || len(all) != 4*maxPerNamespace || pages != 4*maxPerNamespace/pageSize {
		t.Errorf("%d requests in %d pages, error %v", len(all), pages, err)
	}
}

// The name is known, so other objects of the namespace do not matter.
func TestProvisioningRequests_templateExistsAmongManyOthers_isFound(t *testing.T) {
	f, q, p := provisioningShop(t)
	labelled(f, templates, "shop", 600, false)
	for range 2 {
		if err := q.Create(t.Context(), p, cluster.Amounts(100, 1<<20)); err != nil {
			t.Fatal(err)
		}
		f.Delete(requests, cluster.PlaceholderOf(p).String())
	}
}

func TestProvisioningRequests_secondPageFails_errorNamesTheKind(t *testing.T) {
	for _, collection := range []string{templates, requests} {
		f, q, _ := provisioningShop(t)
		labelled(f, collection, "aaa", 60, true)
		f.Reply("GET "+collection, 410, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`)
		if all, err := q.List(t.Context()); err == nil || !strings.Contains(err.Error(), "list P") {
			t.Errorf("listed %d, error %v", len(all), err)
		}
	}
}

func TestStateOf_longMessage_isCut(t *testing.T) {
	state, text := stateOf([]metav1.Condition{{Type: "Failed", Status: metav1.ConditionTrue, Message: strings.Repeat("é", 20000)}})
	if state != cluster.RequestFailed || len(text) > 600 || !utf8.ValidString(text) {
		t.Errorf("state %v, %d bytes: %q", state, len(text), text)
	}
}
