// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	target     = `"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}`
	invalid    = `VerticalPodAutoscaler.autoscaling.k8s.io "web" is invalid: `
	noPerVPA   = `Forbidden: not supported when feature flag PerVPAConfig is disabled`
	noBoost    = `Forbidden: in order to use startupBoost, you must enable feature gate CPUStartupBoost in the admission-controller args`
	policyPath = `spec.resourcePolicy.containerPolicies[0]`
)

var allGates = Gates{InPlace: true, CPUStartupBoost: true, PerVPAConfig: true}

func vpa(spec string) string {
	return `{"apiVersion":"autoscaling.k8s.io/v1","kind":"VerticalPodAutoscaler","metadata":{"name":"web","namespace":"shop"},"spec":{` + spec + `}}`
}

// container returns a spec with one container policy that has the given fields.
func container(policy string) string {
	if policy != "" {
		policy = "," + policy
	}
	return target + `,"updatePolicy":{"updateMode":"Off"},"resourcePolicy":{"containerPolicies":[{"containerName":"app"` + policy + `}]}`
}

func reviewVPA(t testing.TB, h *Handler, object, old string) *admissionv1.AdmissionResponse {
	t.Helper()
	request := &admissionv1.AdmissionRequest{
		UID:         "u",
		Kind:        metav1.GroupVersionKind{Group: "autoscaling.k8s.io", Version: "v1", Kind: "VerticalPodAutoscaler"},
		RequestKind: &metav1.GroupVersionKind{Group: "autoscaling.k8s.io", Version: "v1", Kind: "VerticalPodAutoscaler"},
		Resource:    metav1.GroupVersionResource{Group: "autoscaling.k8s.io", Version: "v1", Resource: "verticalpodautoscalers"},
		Name:        "web", Namespace: "shop",
		Operation: admissionv1.Create,
		Object:    runtime.RawExtension{Raw: []byte(object)},
	}
	if old != "" {
		request.Operation = admissionv1.Update
		request.OldObject = runtime.RawExtension{Raw: []byte(old)}
	}
	return ask(t, h, request)
}

func TestHandler_invalidAutoscaler_isRejected(t *testing.T) { // W-16: without a target too
	for name, c := range map[string]struct {
		gates Gates
		spec  string
		want  string // the message after kind and name; "" if the VPA is admitted
	}{
		"no policy fields":        {spec: container("")},
		"targetRef missing":       {spec: `"updatePolicy":{"updateMode":"Off"}`, want: `spec.targetRef: Required value: If you're using v1beta1 version of the API, please migrate to v1`},
		"updateMode missing":      {spec: target + `,"updatePolicy":{}`, want: `spec.updatePolicy.updateMode: Required value: updateMode is required if UpdatePolicy is used`},
		"updateMode unknown":      {spec: target + `,"updatePolicy":{"updateMode":"bad"}`, want: `spec.updatePolicy.updateMode: Unsupported value: "bad": supported values: "InPlace", "InPlaceOrRecreate", "Initial", "Off", "Recreate"`},
		"updateMode empty":        {spec: target + `,"updatePolicy":{"updateMode":""}`, want: `spec.updatePolicy.updateMode: Unsupported value: "": supported values: "InPlace", "InPlaceOrRecreate", "Initial", "Off", "Recreate"`},
		"InPlace without gate":    {spec: target + `,"updatePolicy":{"updateMode":"InPlace"}`, want: `spec.updatePolicy.updateMode: Forbidden: in order to use UpdateMode InPlace, you must enable feature gate InPlace in the admission-controller args`},
		"InPlace":                 {gates: Gates{InPlace: true}, spec: target + `,"updatePolicy":{"updateMode":"InPlace"}`},
		"InPlaceOrRecreate":       {spec: target + `,"updatePolicy":{"updateMode":"InPlaceOrRecreate"}`},
		"minReplicas zero":        {spec: target + `,"updatePolicy":{"updateMode":"Off","minReplicas":0}`, want: `spec.updatePolicy.minReplicas: Invalid value: 0: minReplicas has to be positive`},
		"evictAfterOOM, no gate":  {spec: target + `,"updatePolicy":{"updateMode":"Off","evictAfterOOMSeconds":60}`, want: `spec.updatePolicy.evictAfterOOMSeconds: ` + noPerVPA},
		"evictAfterOOM too small": {gates: allGates, spec: target + `,"updatePolicy":{"updateMode":"Off","evictAfterOOMSeconds":0}`, want: `spec.updatePolicy.evictAfterOOMSeconds: Invalid value: 0: must be greater than or equal to 1`},
		"evictAfterOOM":           {gates: allGates, spec: target + `,"updatePolicy":{"updateMode":"Off","evictAfterOOMSeconds":1}`},

		"containerName missing":  {spec: target + `,"resourcePolicy":{"containerPolicies":[{}]}`, want: policyPath + `.containerName: Required value`},
		"mode unknown":           {spec: container(`"mode":"bad"`), want: policyPath + `.mode: Unsupported value: "bad": supported values: "Auto", "Off"`},
		"max below min":          {spec: container(`"minAllowed":{"cpu":"100"},"maxAllowed":{"cpu":"10"}`), want: policyPath + `.maxAllowed[cpu]: Invalid value: "10": max resource for cpu is lower than min of "100"`},
		"min CPU too precise":    {spec: container(`"minAllowed":{"cpu":"100.5m"}`), want: policyPath + `.minAllowed[cpu]: Invalid value: "100500u": must be a whole number of milli CPUs`},
		"min memory too precise": {spec: container(`"minAllowed":{"memory":"1500m"}`), want: policyPath + `.minAllowed[memory]: Invalid value: "1500m": must be a whole number of bytes`},
		"max memory too precise": {spec: container(`"maxAllowed":{"memory":"2500m"}`), want: policyPath + `.maxAllowed[memory]: Invalid value: "2500m": must be a whole number of bytes`},
		"max CPU too precise":    {spec: container(`"maxAllowed":{"cpu":"1u"}`), want: policyPath + `.maxAllowed[cpu]: Invalid value: "1u": must be a whole number of milli CPUs`},
		"other resource":         {spec: container(`"maxAllowed":{"example.com/x":"100.5m"}`)},
		"several errors, sorted": {
			spec: container(`"minAllowed":{"memory":"1500m","cpu":"1u"},"maxAllowed":{"memory":"1200m","cpu":"2u"}`),
			want: `[` + policyPath + `.minAllowed[cpu]: Invalid value: "1u": must be a whole number of milli CPUs, ` +
				policyPath + `.minAllowed[memory]: Invalid value: "1500m": must be a whole number of bytes, ` +
				policyPath + `.maxAllowed[memory]: Invalid value: "1200m": max resource for memory is lower than min of "1500m", ` +
				policyPath + `.maxAllowed[cpu]: Invalid value: "2u": must be a whole number of milli CPUs, ` +
				policyPath + `.maxAllowed[memory]: Invalid value: "1200m": must be a whole number of bytes]`,
		},
		"controlledValues while Off":            {spec: container(`"mode":"Off","controlledValues":"RequestsAndLimits"`), want: policyPath + `.controlledValues: Forbidden: controlledValues shouldn't be specified if container scaling mode is off`},
		"RequestsOnly while Off":                {spec: container(`"mode":"Off","controlledValues":"RequestsOnly"`)},
		"controlledResources unknown":           {spec: container(`"controlledResources":["cpu","storage"]`), want: policyPath + `.controlledResources[1]: Unsupported value: "storage": supported values: "cpu", "memory"`},
		"controlledResources empty":             {spec: container(`"controlledResources":[]`)},
		"oomBumpUpRatio without gate":           {spec: container(`"oomBumpUpRatio":"1.5"`), want: policyPath + `.oomBumpUpRatio: ` + noPerVPA},
		"oomBumpUpRatio too small":              {gates: allGates, spec: container(`"oomBumpUpRatio":"0.5"`), want: policyPath + `.oomBumpUpRatio: Invalid value: 0.5: must be greater than or equal to 1.0`},
		"oomBumpUpRatio":                        {gates: allGates, spec: container(`"oomBumpUpRatio":1`)},
		"oomMinBumpUp without gate":             {spec: container(`"oomMinBumpUp":"1Mi"`), want: policyPath + `.oomMinBumpUp: ` + noPerVPA},
		"oomMinBumpUp negative":                 {gates: allGates, spec: container(`"oomMinBumpUp":"-1"`), want: policyPath + `.oomMinBumpUp: Invalid value: -1: must be greater than or equal to 0`},
		"oomMinBumpUp":                          {gates: allGates, spec: container(`"oomMinBumpUp":0`)},
		"aggregation seconds without gate":      {spec: container(`"memoryAggregationIntervalSeconds":5`), want: policyPath + `.memoryAggregationIntervalSeconds: ` + noPerVPA},
		"aggregation seconds too small":         {gates: allGates, spec: container(`"memoryAggregationIntervalSeconds":0`), want: policyPath + `.memoryAggregationIntervalSeconds: Invalid value: 0: must be greater than or equal to 1`},
		"aggregation count without gate":        {spec: container(`"memoryAggregationIntervalCount":5`), want: policyPath + `.memoryAggregationIntervalCount: ` + noPerVPA},
		"aggregation count too small":           {gates: allGates, spec: container(`"memoryAggregationIntervalCount":0`), want: policyPath + `.memoryAggregationIntervalCount: Invalid value: 0: must be greater than or equal to 1`},
		"aggregation":                           {gates: allGates, spec: container(`"memoryAggregationIntervalCount":1,"memoryAggregationIntervalSeconds":1`)},
		"startupBoost without gate":             {spec: target + `,"startupBoost":{"cpu":{"type":"Factor","factor":2}}`, want: `spec.startupBoost: ` + noBoost},
		"container's startupBoost without gate": {spec: container(`"startupBoost":{}`), want: policyPath + `.startupBoost: ` + noBoost},
		"startupBoost empty":                    {gates: allGates, spec: target + `,"startupBoost":{}`},
		"startupBoost without type":             {gates: allGates, spec: target + `,"startupBoost":{"cpu":{"factor":2}}`, want: `spec.startupBoost.cpu.type: Required value: must be either Factor or Quantity`},
		"startupBoost of unknown type":          {gates: allGates, spec: target + `,"startupBoost":{"cpu":{"type":"x"}}`, want: `spec.startupBoost.cpu.type: Unsupported value: "x": supported values: "Factor", "Quantity"`},
		"factor missing":                        {gates: allGates, spec: target + `,"startupBoost":{"cpu":{"type":"Factor"}}`, want: `spec.startupBoost.cpu.factor: Required value: required when type is Factor`},
		"factor too small":                      {gates: allGates, spec: target + `,"startupBoost":{"cpu":{"type":"Factor","factor":0}}`, want: `spec.startupBoost.cpu.factor: Invalid value: 0: must be >= 1 for type Factor`},
		"quantity missing":                      {gates: allGates, spec: container(`"startupBoost":{"cpu":{"type":"Quantity"}}`), want: policyPath + `.startupBoost.cpu.quantity: Required value: required when type is Quantity`},
		"quantity too precise":                  {gates: allGates, spec: container(`"startupBoost":{"cpu":{"type":"Quantity","quantity":"1u"}}`), want: policyPath + `.startupBoost.cpu.quantity: Invalid value: "1u": must be a whole number of milli CPUs`},
		"startupBoost":                          {gates: allGates, spec: container(`"startupBoost":{"cpu":{"type":"Quantity","quantity":"1"}}`)},
		"two recommenders":                      {spec: target + `,"recommenders":[{"name":"a"},{"name":"b"}]`, want: `spec.recommenders: Too many: 2: must have at most 1 item`},
		"one recommender":                       {spec: target + `,"recommenders":[{"name":"a"}]`},

		"invalid quantity": {
			spec: container(`"minAllowed":{"cpu":"lots"}`),
			want: `.: Internal error: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			response := reviewVPA(t, handler(worldOf(), Options{Gates: c.gates}), vpa(c.spec), "")
			if c.want == "" {
				if !response.Allowed {
					t.Errorf("rejected: %s", response.Result.Message)
				}
				return
			}
			if response.Allowed || response.Result == nil {
				t.Fatalf("admitted, want the error %s", c.want)
			}
			if len(response.Patch) > 0 {
				t.Errorf("rejected with a patch: %s", response.Patch)
			}
			if r := response.Result; r.Reason != metav1.StatusReasonInvalid || r.Code != 422 || r.Details.Kind != "VerticalPodAutoscaler" {
				t.Errorf("status %+v", r)
			}
			if diff := cmp.Diff(invalid+c.want, response.Result.Message); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHandler_updateOfInvalidAutoscaler_mayKeepExistingValues(t *testing.T) {
	off := target + `,"updatePolicy":{"updateMode":"Off"}`
	inPlace := target + `,"updatePolicy":{"updateMode":"InPlace"}`
	boost := `,"startupBoost":{"cpu":{"type":"Factor","factor":2}}`
	for name, c := range map[string]struct {
		old, spec string
		rejected  string // part of the message; "" if the VPA is admitted
	}{
		"InPlace kept":                                {old: inPlace, spec: inPlace + `,"recommenders":[]`},
		"InPlace added":                               {old: off, spec: inPlace, rejected: "spec.updatePolicy.updateMode: Forbidden"},
		"boost kept":                                  {old: off + boost, spec: inPlaceOrRecreate + boost},
		"boost moved to a container":                  {old: off + boost, spec: container(boost[1:])},
		"boost moved from a container":                {old: container(boost[1:]), spec: off + boost},
		"boost added":                                 {old: off, spec: off + boost, rejected: "spec.startupBoost: Forbidden"},
		"boost added to an empty one":                 {old: off + `,"startupBoost":{}`, spec: off + boost, rejected: "spec.startupBoost: Forbidden"},
		"recommender's fields kept":                   {old: container(`"oomBumpUpRatio":"2"`), spec: container(`"memoryAggregationIntervalCount":3`)},
		"recommender's fields changed to others":      {old: target + `,"updatePolicy":{"updateMode":"Off","evictAfterOOMSeconds":9}`, spec: container(`"oomMinBumpUp":"1Mi"`)},
		"recommender's field set to an invalid value": {old: container(`"oomMinBumpUp":"1"`), spec: container(`"oomMinBumpUp":"-1"`), rejected: "must be greater than or equal to 0"},
		"recommender's field added":                   {old: container(""), spec: container(`"oomMinBumpUp":"1"`), rejected: "oomMinBumpUp: Forbidden"},
		"targetRef removed":                           {old: off, spec: `"updatePolicy":{"updateMode":"Off"}`},
		"old object cannot be decoded":                {old: container(`"minAllowed":{"cpu":"lots"}`), spec: off},
		"still invalid, same spec":                    {old: container(`"mode":"bad"`), spec: container(`"mode":"bad"`)},
		"still invalid, changed spec":                 {old: container(`"mode":"bad"`), spec: container(`"mode":"bad","controlledResources":["cpu"]`), rejected: ".mode: Unsupported value"},
	} {
		t.Run(name, func(t *testing.T) {
			response := reviewVPA(t, handler(worldOf(), Options{}), vpa(c.spec), vpa(c.old))
			switch {
			case c.rejected == "" && !response.Allowed:
				t.Errorf("rejected: %s", response.Result.Message)
			case c.rejected != "" && response.Allowed:
				t.Errorf("admitted, want an error with %s", c.rejected)
			case c.rejected != "" && !strings.Contains(response.Result.Message, c.rejected):
				t.Errorf("the error is %s, want one with %s", response.Result.Message, c.rejected)
			}
		})
	}
}

const inPlaceOrRecreate = target + `,"updatePolicy":{"updateMode":"InPlaceOrRecreate"}`

func TestHandler_deletedAutoscaler_finalizersCanBeRemoved(t *testing.T) {
	old := vpa(container(`"mode":"bad"`))
	object := strings.Replace(vpa(container(`"mode":"worse"`)), `"name":"web"`, `"name":"web","deletionTimestamp":"2026-01-01T00:00:00Z"`, 1)
	if r := reviewVPA(t, handler(worldOf(), Options{}), object, old); !r.Allowed {
		t.Errorf("rejected: %s", r.Result.Message)
	}
}

// An API server without the webhook stores quantities that podfit does not parse.
func TestHandler_undecodableAutoscaler_finalizersCanBeRemoved(t *testing.T) {
	h := handler(worldOf(), Options{})
	stored := vpa(container(`"minAllowed":{"cpu":"1e-999999999"}`))
	finalizer := func(object, name string) string {
		return strings.Replace(object, `"metadata":{`, `"metadata":{"finalizers":["`+name+`"],`, 1)
	}
	deleted := strings.Replace(stored, `"metadata":{`, `"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z",`, 1)
	for name, c := range map[string]struct {
		object, old string
		allowed     bool
	}{
		"finalizer removed while it is being deleted": {deleted, finalizer(deleted, "a"), true},
		"finalizer changed, same spec":                {finalizer(stored, "b"), finalizer(stored, "a"), true},
		"another spec that cannot be decoded":         {vpa(container(`"minAllowed":{"cpu":"1e-99999999"}`)), stored, false},
		"changed so that it cannot be decoded":        {stored, vpa(container("")), false},
		"corrected":                                   {vpa(container("")), stored, true},
		"created":                                     {stored, "", false},
	} {
		if got := reviewVPA(t, h, c.object, c.old); got.Allowed != c.allowed || len(got.Patch) > 0 {
			t.Errorf("%s: allowed is %t, want %t; %v", name, got.Allowed, c.allowed, got.Result)
		}
	}
}

func TestHandler_deprecatedValues_returnWarnings(t *testing.T) {
	h := handler(worldOf(), Options{})
	auto := reviewVPA(t, h, vpa(target+`,"updatePolicy":{"updateMode":"Auto"}`), "")
	want := []string{`spec.updatePolicy: "Auto" mode is deprecated and will be removed in a future API version. Use explicit update modes like: ` +
		`[InPlace InPlaceOrRecreate Initial Off Recreate]. See https://github.com/kubernetes/autoscaler/issues/8424 for more details.`}
	if diff := cmp.Diff(want, auto.Warnings); diff != "" || !auto.Allowed {
		t.Errorf("Auto: %+v (-want +got):\n%s", auto, diff)
	}

	storage := container(`"controlledResources":["cpu","storage"]`)
	kept := reviewVPA(t, h, vpa(storage), vpa(container(`"controlledResources":["storage"]`)))
	want = []string{policyPath + `.controlledResources[1]: unsupported value "storage" is allowed only because it is present in the existing VPA object; supported values: "cpu", "memory"`}
	if diff := cmp.Diff(want, kept.Warnings); diff != "" || !kept.Allowed {
		t.Errorf("controlledResources: %+v (-want +got):\n%s", kept, diff)
	}

	both := reviewVPA(t, h, vpa(`"updatePolicy":{"updateMode":"Auto"}`), "")
	if both.Allowed || len(both.Warnings) != 1 {
		t.Errorf("deprecated and invalid: want a rejection with a warning, got %+v", both)
	}
}

func TestHandler_autoscalerWithoutUpdatePolicy_getsRecreate(t *testing.T) {
	h := handler(worldOf(), Options{})
	for name, old := range map[string]string{"created": "", "updated": vpa(target)} {
		r := reviewVPA(t, h, vpa(target), old)
		got := apply(t, vpa(target), r.Patch)
		mode := got["spec"].(map[string]any)["updatePolicy"].(map[string]any)["updateMode"]
		if !r.Allowed || mode != "Recreate" {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if r := reviewVPA(t, h, vpa(target+`,"updatePolicy":{"updateMode":"Off"}`), ""); len(r.Patch) > 0 {
		t.Errorf("patched although it has an update policy: %s", r.Patch)
	}
}

func TestHandler_autoscalerDeleteOrSubresource_isAdmitted(t *testing.T) {
	for _, change := range []func(*admissionv1.AdmissionRequest){
		func(r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Delete },
		func(r *admissionv1.AdmissionRequest) { r.SubResource = "status" },
	} {
		r := &admissionv1.AdmissionRequest{
			UID: "u", Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(`{"spec":7}`)},
			Resource: metav1.GroupVersionResource{Group: "autoscaling.k8s.io", Version: "v1", Resource: "verticalpodautoscalers"},
		}
		change(r)
		if response := ask(t, handler(worldOf(), Options{}), r); !response.Allowed {
			t.Errorf("%s %s rejected: %+v", r.Operation, r.SubResource, response.Result)
		}
	}
}

func TestHandler_settingAnnotations_newInvalidOnesAreRejected(t *testing.T) {
	annotated := func(annotations string) string {
		return strings.Replace(vpa(target+`,"updatePolicy":{"updateMode":"Off"}`), `"namespace":"shop"`, `"namespace":"shop","annotations":{`+annotations+`}`, 1)
	}
	const wrong = `"podfit.dev/eviction-tolerance":"50%"`
	const rejected = `metadata.annotations[podfit.dev/eviction-tolerance]: Invalid value: "50%": must be a number from 0 to 1, such as 0.25`
	for name, c := range map[string]struct {
		annotations, before string
		create              bool
		want                string
	}{
		"created valid":      {create: true, annotations: `"podfit.dev/eviction-tolerance":"0.5"`},
		"created invalid":    {create: true, annotations: wrong, want: rejected},
		"added":              {annotations: wrong, want: rejected},
		"changed":            {annotations: wrong, before: `"podfit.dev/eviction-tolerance":"0.5"`, want: rejected},
		"was invalid before": {annotations: wrong + `,"a":"b"`, before: wrong},
		"word that is no choice": {create: true, annotations: `"podfit.dev/ignore-do-not-disrupt":"true"`,
			want: `metadata.annotations[podfit.dev/ignore-do-not-disrupt]: Invalid value: "true": must be none, rescue or always`},
		"step of 0%": {create: true, annotations: `"podfit.dev/max-step":"0%"`,
			want: `metadata.annotations[podfit.dev/max-step]: Invalid value: "0%": must be none, or a list of a percentage from 1% to 1000%, ` +
				`cpu of at least 1m and memory of at least 1Mi, such as 50%,memory=1Gi`},
		"range that ends before it begins": {create: true, annotations: `"podfit.dev/memory-per-cpu":"8Gi-2Gi"`,
			want: `metadata.annotations[podfit.dev/memory-per-cpu]: Invalid value: "8Gi-2Gi": must be none, or the least and the most memory for each core, ` +
				`one of which may be missing, such as 2Gi-8Gi, 2Gi- or -8Gi`},
		"valid step and range":   {create: true, annotations: `"podfit.dev/max-step":"50%","podfit.dev/memory-per-cpu":"2Gi-"`},
		"unrelated":              {create: true, annotations: `"example.com/eviction-tolerance":"50%"`},
		"too many to be decoded": {create: true, annotations: wrong + strings.Repeat(`,"a":"b"`, maxValues)},
	} {
		t.Run(name, func(t *testing.T) {
			old := annotated(c.before)
			if c.create {
				old = ""
			}
			r := reviewVPA(t, handler(worldOf(), Options{}), annotated(c.annotations), old)
			if r.Allowed != (c.want == "") || !r.Allowed && r.Result.Message != invalid+c.want {
				t.Errorf("allowed %v: %v, want %q", r.Allowed, r.Result, c.want)
			}
		})
	}
}
