// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
)

// serveObject serves a request for one object.
func (s *Server) serveObject(w *meter, q *request, body []byte) error {
	switch {
	case q.Method == http.MethodPost && q.sub == "eviction" && q.kind.Resource == "pods":
		return s.evict(w, q, body)
	case q.sub == "scale" && q.kind.Scale && q.Method == http.MethodGet:
		return s.serveScale(w, q)
	case q.sub != "" && q.sub != "status" && q.sub != "resize", q.sub == "status" && !q.kind.Status, q.sub == "resize" && q.kind.Resource != "pods":
		return newError(http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
	}
	switch q.Method {
	case http.MethodGet:
		o := s.get(q.collection, q.key())
		if o == nil {
			return apierrors.NewNotFound(q.groupResource(), q.name)
		}
		return send(w, q, http.StatusOK, o)
	case http.MethodPost:
		return s.create(w, q, body)
	case http.MethodPut, http.MethodPatch:
		return s.change(w, q, body)
	case http.MethodDelete:
		return s.remove(w, q, body)
	}
	return apierrors.NewMethodNotSupported(q.groupResource(), q.Method)
}

func (q *request) key() key { return key{q.namespace, q.name} }

func send(w *meter, q *request, code int, o *Object) error {
	respond(w, q, code, q.form.contentType(false), q.form.object(o))
	return nil
}

// isDryRun reports whether the client asks for the result of a request that stores nothing.
func (q *request) isDryRun() bool { return q.query.Get("dryRun") == metav1.DryRunAll }

func (s *Server) create(w *meter, q *request, body []byte) error {
	next, err := q.decode(body)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	m := next.meta()
	if m.GetName() == "" && m.GetGenerateName() != "" {
		m.SetName(m.GetGenerateName() + rand.String(5))
	}
	if q.kind.Cluster == (q.namespace != "") || m.GetName() == "" {
		return apierrors.NewBadRequest("the name or the namespace is missing, or there must be no namespace")
	}
	m.SetNamespace(q.namespace)
	o, err := s.insert(q.collection, next, q.isDryRun())
	if err != nil {
		return err
	}
	q.stored = o
	if s.o.Written != nil && !q.isDryRun() {
		s.o.Written(o)
	}
	return send(w, q, http.StatusCreated, o)
}

// insert stores a new object.
func (s *store) insert(c *collection, next content, dryRun bool) (*Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := next.meta()
	if c.objects[key{m.GetNamespace(), m.GetName()}] != nil {
		return nil, apierrors.NewAlreadyExists(c.kind.groupVersion().WithResource(c.kind.Resource).GroupResource(), m.GetName())
	}
	s.uids++
	if m.GetUID() == "" {
		m.SetUID(types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012x", s.uids)))
	}
	if m.GetCreationTimestamp().Time.IsZero() {
		m.SetCreationTimestamp(metav1.NewTime(time.Now().Truncate(time.Second)))
	}
	if m.GetGeneration() == 0 {
		m.SetGeneration(1)
	}
	version := s.version
	if !dryRun {
		version = s.next()
	}
	o, err := next.seal(version)
	if err == nil && !dryRun {
		s.put(c, o)
	}
	return o, err
}

// change serves an update or a patch. It is tried again if the object has changed meanwhile, unless the request names a version.
func (s *Server) change(w *meter, q *request, body []byte) error {
	for {
		have := s.get(q.collection, q.key())
		if have == nil {
			if q.Method == http.MethodPatch && types.PatchType(contentType(q.Request)) == types.ApplyYAMLPatchType {
				return s.create(w, q, asJSON(body))
			}
			return apierrors.NewNotFound(q.groupResource(), q.name)
		}
		next, err := q.changed(have, body)
		if err != nil {
			return err
		}
		if version := next.meta().GetResourceVersion(); version != "" && version != strconv.FormatInt(have.Version, 10) {
			return apierrors.NewConflict(q.groupResource(), q.name, fmt.Errorf("the object has been modified"))
		}
		o, stored, err := s.replace(q.collection, have, next, q.isDryRun())
		if err != nil {
			return err
		}
		if o == nil {
			continue
		}
		q.stored = o
		if s.o.Written != nil && stored {
			s.o.Written(o)
		}
		if s.o.Resized != nil && stored && q.sub == "resize" {
			s.o.Resized(o)
		}
		return send(w, q, http.StatusOK, o)
	}
}

// replace stores the next version of an object. It returns nil if the object has changed meanwhile. An object with the same content is not stored.
func (s *store) replace(c *collection, have *Object, next content, dryRun bool) (o *Object, stored bool, err error) {
	same, err := next.seal(have.Version)
	if err != nil {
		return nil, false, err
	}
	if bytes.Equal(same.raw, have.raw) {
		return have, false, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.objects[have.key()] != have {
		return nil, false, nil
	}
	if dryRun {
		return same, false, nil
	}
	if o, err = next.seal(s.next()); err != nil {
		return nil, false, err
	}
	return s.put(c, o), true, nil
}

func (s *Server) remove(w *meter, q *request, body []byte) error {
	var options metav1.DeleteOptions
	if err := decodeOptions(q.Request, body, &options); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	o, err := s.deleteIf(q, options.Preconditions)
	if err != nil {
		return err
	}
	q.stored = o
	if s.o.Evicted != nil && q.kind.Resource == "pods" {
		s.o.Evicted(o)
	}
	return success(w, q, http.StatusOK)
}

func (s *Server) deleteIf(q *request, p *metav1.Preconditions) (*Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := q.collection.objects[q.key()]
	switch {
	case o == nil:
		return nil, apierrors.NewNotFound(q.groupResource(), q.name)
	case p != nil && p.UID != nil && string(*p.UID) != o.UID,
		p != nil && p.ResourceVersion != nil && *p.ResourceVersion != strconv.FormatInt(o.Version, 10):
		return nil, apierrors.NewConflict(q.groupResource(), q.name, fmt.Errorf("the preconditions do not hold"))
	}
	if !q.isDryRun() {
		s.drop(q.collection, o)
	}
	return o, nil
}

// drop deletes an object. The caller holds the mutex.
func (s *store) drop(c *collection, o *Object) {
	delete(c.objects, o.key())
	c.removed(o.key())
	last := *o
	last.Version = s.next()
	s.record(c, event{version: last.Version, kind: watch.Deleted, object: last.at(last.Version), old: o})
}

// at returns the object with another version in its content, as deleted objects are sent.
func (o *Object) at(version int64) *Object {
	var out *Object
	var err error
	if o.Kind.New != nil {
		out, err = seal(o.Kind, o.Decode(), version)
	} else {
		var c *custom
		if c, err = parseCustom(o.raw); err == nil {
			out, err = sealCustom(o.Kind, c, version)
		}
	}
	if err != nil {
		panic(err) // the server encoded it
	}
	return out
}

func success(w *meter, q *request, code int) error {
	form := q.form
	form.partial = false
	respond(w, q, code, form.contentType(false), form.status(&metav1.Status{Status: metav1.StatusSuccess}))
	return nil
}

func (s *Server) evict(w *meter, q *request, body []byte) error {
	var eviction struct {
		DeleteOptions *metav1.DeleteOptions `json:"deleteOptions"`
	}
	o, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err == nil {
		body, _ = json.Marshal(o) // it was decoded
	}
	if err := json.Unmarshal(body, &eviction); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	var preconditions *metav1.Preconditions
	if eviction.DeleteOptions != nil {
		preconditions = eviction.DeleteOptions.Preconditions
	}
	gone, err := s.deleteIf(q, preconditions)
	if err != nil {
		return err
	}
	q.stored = gone
	if s.o.Evicted != nil && !q.isDryRun() {
		s.o.Evicted(gone)
	}
	return success(w, q, http.StatusCreated)
}

func (s *Server) serveScale(w *meter, q *request) error {
	o := s.get(q.collection, q.key())
	if o == nil {
		return apierrors.NewNotFound(q.groupResource(), q.name)
	}
	scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, UID: types.UID(o.UID), ResourceVersion: strconv.FormatInt(o.Version, 10)}}
	var selector *metav1.LabelSelector
	var replicas *int32
	switch m := o.Decode().(type) {
	case *appsv1.Deployment:
		replicas, selector = m.Spec.Replicas, m.Spec.Selector
	case *appsv1.ReplicaSet:
		replicas, selector = m.Spec.Replicas, m.Spec.Selector
	case *appsv1.StatefulSet:
		replicas, selector = m.Spec.Replicas, m.Spec.Selector
	case *corev1.ReplicationController:
		replicas, selector = m.Spec.Replicas, &metav1.LabelSelector{MatchLabels: m.Spec.Selector}
	}
	if replicas != nil {
		scale.Spec.Replicas = *replicas
		scale.Status.Replicas = *replicas
	}
	scale.Status.Selector = metav1.FormatLabelSelector(selector)
	return sendBuiltin(w, q, http.StatusOK, "autoscaling/v1", "Scale", scale)
}

// sendBuiltin sends an object that is not stored.
func sendBuiltin(w *meter, q *request, code int, apiVersion, kind string, m interface {
	runtime.Object
	Marshal() ([]byte, error)
},
) error {
	if wantsProtobuf(q.Request) {
		b, err := m.Marshal()
		if err != nil {
			return err
		}
		respond(w, q, code, runtime.ContentTypeProtobuf, envelope(apiVersion, kind, b))
		return nil
	}
	gv, err := parseGroupVersion(apiVersion)
	if err != nil {
		return err
	}
	m.GetObjectKind().SetGroupVersionKind(gv.WithKind(kind))
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	respond(w, q, code, runtime.ContentTypeJSON, b)
	return nil
}

// serveReview answers whether somebody has a permission: the server does not authorize.
func (s *Server) serveReview(w *meter, q *request, body []byte) error {
	o, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	allowed := authorizationv1.SubjectAccessReviewStatus{Allowed: true}
	switch review := o.(type) {
	case *authorizationv1.SelfSubjectAccessReview:
		review.Status = allowed
		return sendBuiltin(w, q, http.StatusCreated, "authorization.k8s.io/v1", q.kind.Name, review)
	case *authorizationv1.SubjectAccessReview:
		review.Status = allowed
		return sendBuiltin(w, q, http.StatusCreated, "authorization.k8s.io/v1", q.kind.Name, review)
	}
	return apierrors.NewBadRequest(fmt.Sprintf("%T is not a review", o))
}
