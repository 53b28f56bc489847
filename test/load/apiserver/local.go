// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"encoding/json"
	"fmt"
)

// These methods are for the part of the cluster that runs in this process: controllers, kubelets, the scheduler. They are not counted.

// Create stores a new object of a built-in kind. It panics if it exists.
func (s *Server) Create(resource string, m Message) *Object {
	c := s.of(resource)
	o, err := s.insert(c, builtin{c.kind, m}, false)
	if err != nil {
		panic(err)
	}
	return o
}

// CreateCustom stores a new custom resource. It panics if it exists.
func (s *Server) CreateCustom(resource string, object any) *Object {
	c := s.of(resource)
	b, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	parsed, err := parseCustom(b)
	if err != nil {
		panic(err)
	}
	o, err := s.insert(c, customContent{c.kind, parsed}, false)
	if err != nil {
		panic(err)
	}
	return o
}

// Modify changes an object of a built-in kind. It reports false if the object does not exist.
func (s *Server) Modify(resource, namespace, name string, modify func(Message)) bool {
	c := s.of(resource)
	for {
		have := s.get(c, key{namespace, name})
		if have == nil {
			return false
		}
		m := have.Decode()
		modify(m)
		o, _, err := s.replace(c, have, builtin{c.kind, m}, false)
		if err != nil {
			panic(err)
		}
		if o != nil {
			return true
		}
	}
}

// Delete deletes an object. It reports false if it does not exist.
func (s *Server) Delete(resource, namespace, name string) bool {
	c := s.of(resource)
	s.mu.Lock()
	defer s.mu.Unlock()
	o := c.objects[key{namespace, name}]
	if o != nil {
		s.drop(c, o)
	}
	return o != nil
}

// Get returns an object, nil if it does not exist.
func (s *Server) Get(resource, namespace, name string) *Object {
	return s.get(s.of(resource), key{namespace, name})
}

// List returns the objects of a namespace, "" for all, in the order of their keys.
func (s *Server) List(resource, namespace string) []*Object {
	everything, _ := selectorOf(nil) // always valid
	objects, _ := s.list(s.of(resource), namespace, everything)
	return objects
}

// of returns the collection of a resource such as "apps/deployments" or "/pods".
func (s *Server) of(resource string) *collection {
	c := s.collections[resource]
	if c == nil {
		panic(fmt.Sprintf("there is no resource %s", resource))
	}
	return c
}

// DeleteNamespace deletes a namespace and all objects in it.
func (s *Server) DeleteNamespace(name string) {
	everything, _ := selectorOf(nil) // always valid
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.collections {
		if c.kind.Cluster {
			continue
		}
		for _, o := range c.within(name, everything) {
			s.drop(c, o)
		}
	}
	if c := s.collections["/namespaces"]; c.objects[key{"", name}] != nil {
		s.drop(c, c.objects[key{"", name}])
	}
}

// SetStatus replaces the status of a custom resource, in JSON. It reports false if the object does not exist.
func (s *Server) SetStatus(resource, namespace, name string, status json.RawMessage) bool {
	return s.ModifyCustom(resource, namespace, name, func(fields map[string]json.RawMessage) { fields["status"] = status })
}

// ModifyCustom changes the fields of a custom resource other than its metadata. It reports false if the object does not exist.
func (s *Server) ModifyCustom(resource, namespace, name string, modify func(fields map[string]json.RawMessage)) bool {
	c := s.of(resource)
	for {
		have := s.get(c, key{namespace, name})
		if have == nil {
			return false
		}
		parsed, err := parseCustom(have.raw)
		if err != nil {
			panic(err) // the server encoded it
		}
		modify(parsed.rest)
		o, _, err := s.replace(c, have, customContent{c.kind, parsed}, false)
		if err != nil {
			panic(err)
		}
		if o != nil {
			return true
		}
	}
}

// CutWatches ends all watches that are open.
func (s *Server) CutWatches() {
	s.cuts.Lock()
	defer s.cuts.Unlock()
	close(s.cut)
	s.cut = make(chan struct{})
}

func (s *Server) cutting() <-chan struct{} {
	s.cuts.Lock()
	defer s.cuts.Unlock()
	return s.cut
}

// ExpireWatches makes all watches, open or begun from an earlier version, fail with status 410.
func (s *Server) ExpireWatches() { s.expire() }

// Certificate returns the certificate of the server, in DER.
func (s *Server) Certificate() []byte { return s.http.Certificate().Raw }
