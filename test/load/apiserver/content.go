// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// A content is an object that is not stored yet.
type content interface {
	meta() metav1.Object
	seal(version int64) (*Object, error)
}

type builtin struct {
	kind *Kind
	m    Message
}

func (b builtin) meta() metav1.Object { return b.m }

func (b builtin) seal(version int64) (*Object, error) { return seal(b.kind, b.m, version) }

type customContent struct {
	kind *Kind
	c    *custom
}

func (c customContent) meta() metav1.Object { return &c.c.meta }

func (c customContent) seal(version int64) (*Object, error) { return sealCustom(c.kind, c.c, version) }

func contentType(r *http.Request) string {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return runtime.ContentTypeJSON
	}
	return media
}

func wantsProtobuf(r *http.Request) bool {
	first, _, _ := strings.Cut(r.Header.Get("Accept"), ",")
	return strings.HasPrefix(first, runtime.ContentTypeProtobuf)
}

func parseGroupVersion(text string) (schema.GroupVersion, error) {
	return schema.ParseGroupVersion(text)
}

// asJSON returns the JSON of a YAML document, or the text itself if it is neither.
func asJSON(text []byte) []byte {
	if b, err := yaml.YAMLToJSON(text); err == nil {
		return b
	}
	return text
}

// decode decodes the object in the body of a request.
func (q *request) decode(body []byte) (content, error) {
	if q.kind.New == nil {
		c, err := parseCustom(body)
		return customContent{q.kind, c}, err
	}
	m := q.kind.New()
	if contentType(q.Request) == runtime.ContentTypeProtobuf {
		_, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, m)
		return builtin{q.kind, m}, err
	}
	return builtin{q.kind, m}, json.Unmarshal(body, m)
}

// decodeOptions decodes the DeleteOptions of a request.
func decodeOptions(r *http.Request, body []byte, options *metav1.DeleteOptions) error {
	if len(body) == 0 {
		return nil
	}
	if contentType(r) == runtime.ContentTypeProtobuf {
		var unknown runtime.Unknown
		if err := unknown.Unmarshal(body[len(magic):]); err != nil {
			return err
		}
		return options.Unmarshal(unknown.Raw)
	}
	return json.Unmarshal(body, options)
}

// changed returns the object of an update or a patch. Its resource version is that of the request, if there is one.
func (q *request) changed(have *Object, body []byte) (content, error) {
	var next content
	var err error
	if q.Method == http.MethodPatch {
		next, err = q.patched(have, body)
	} else {
		next, err = q.decode(body)
	}
	if err != nil {
		var status *apierrors.StatusError
		if errors.As(err, &status) {
			return nil, err
		}
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return q.restricted(have, next)
}

// patched applies a patch.
func (q *request) patched(have *Object, patch []byte) (content, error) {
	before := have.JSON()
	var after []byte
	var err error
	kind := types.PatchType(contentType(q.Request))
	if kind == types.ApplyYAMLPatchType {
		patch = asJSON(patch)
		if kind = types.StrategicMergePatchType; q.kind.New == nil {
			kind = types.MergePatchType
		}
	}
	switch kind {
	case types.JSONPatchType:
		after, err = jsonPatched(before, patch)
	case types.MergePatchType:
		after, err = jsonpatch.MergePatch(before, patch)
	case types.StrategicMergePatchType:
		if q.kind.New == nil {
			return nil, newError(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, "custom resources have no strategic merge patch")
		}
		after, err = strategicpatch.StrategicMergePatch(before, patch, q.kind.New())
	default:
		return nil, newError(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, "unknown patch type "+string(kind))
	}
	if err != nil {
		return nil, err
	}
	if q.kind.New == nil {
		c, err := parseCustom(after)
		return customContent{q.kind, c}, err
	}
	m := q.kind.New()
	return builtin{q.kind, m}, json.Unmarshal(after, m)
}

func jsonPatched(before, patch []byte) ([]byte, error) {
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, err
	}
	after, err := operations.Apply(before)
	if err != nil {
		return nil, newError(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, err.Error())
	}
	return after, nil
}

// restricted returns the part of a change that the resource or subresource of the request may change. A change of the specification increments
// the generation.
func (q *request) restricted(have *Object, next content) (content, error) {
	m := next.meta()
	m.SetUID(types.UID(have.UID))
	m.SetNamespace(have.Namespace)
	m.SetName(have.Name)
	switch next := next.(type) {
	case customContent:
		return q.restrictedCustom(have, next)
	case builtin:
		old := have.Decode()
		m.SetCreationTimestamp(old.GetCreationTimestamp())
		m.SetGeneration(old.GetGeneration())
		switch q.sub {
		case "resize":
			return resized(q.kind, old, next.m)
		case "status":
			return withStatusOf(q.kind, old, next.m, m.GetResourceVersion())
		case "":
			if q.kind.Status {
				return withStatusOf(q.kind, next.m, old, m.GetResourceVersion())
			}
		}
	}
	return next, nil
}

func (q *request) restrictedCustom(have *Object, next customContent) (content, error) {
	old, err := parseCustom(have.raw)
	if err != nil {
		return nil, err
	}
	version := next.c.meta.ResourceVersion
	next.c.meta.CreationTimestamp = old.meta.CreationTimestamp
	next.c.meta.Generation = old.meta.Generation
	switch {
	case !q.kind.Status:
	case q.sub == "status":
		old.rest["status"] = next.c.rest["status"]
		if next.c.rest["status"] == nil {
			delete(old.rest, "status")
		}
		old.meta.ResourceVersion = version
		return customContent{q.kind, old}, nil
	default:
		next.c.rest["status"] = old.rest["status"]
		if old.rest["status"] == nil {
			delete(next.c.rest, "status")
		}
	}
	if string(next.c.rest["spec"]) != string(old.rest["spec"]) {
		next.c.meta.Generation++
	}
	return next, nil
}

// withStatusOf returns an object with the status of another one.
func withStatusOf(k *Kind, object, status Message, version string) (content, error) {
	var fields, with map[string]json.RawMessage
	for to, m := range map[*map[string]json.RawMessage]Message{&fields: object, &with: status} {
		b, err := json.Marshal(m)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(b, to); err != nil {
			return nil, err
		}
	}
	delete(fields, "status")
	if s, ok := with["status"]; ok {
		fields["status"] = s
	}
	b, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	m := k.New()
	if err := json.Unmarshal(b, m); err != nil {
		return nil, err
	}
	m.SetResourceVersion(version)
	return builtin{k, m}, nil
}

// resized returns a pod with the resources of the containers of another one.
func resized(k *Kind, old, next Message) (content, error) {
	have, ok := old.(*corev1.Pod)
	want, wanted := next.(*corev1.Pod)
	if !ok || !wanted || len(have.Spec.Containers) != len(want.Spec.Containers) || len(have.Spec.InitContainers) != len(want.Spec.InitContainers) {
		return nil, fmt.Errorf("a resize must not add or remove containers")
	}
	for i := range have.Spec.Containers {
		have.Spec.Containers[i].Resources = want.Spec.Containers[i].Resources
	}
	for i := range have.Spec.InitContainers {
		have.Spec.InitContainers[i].Resources = want.Spec.InitContainers[i].Resources
	}
	have.Generation++
	have.ResourceVersion = want.ResourceVersion
	return builtin{k, have}, nil
}
