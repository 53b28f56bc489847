// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

// How many connections there may be. Each takes some 50 KiB. An API server uses one or two.
const (
	maxConnections     = 500
	maxConnectionsOfIP = 100

	slowRequest = 5 * time.Second // no first request of an API server takes that long
)

// connections bounds how many connections there are. When there are too many, one of the address with the most of them is
// closed: of those that have no request under way the oldest one that has never brought a review, else the oldest; else the
// oldest one with a slow first request. So those who only hold connections lose them, and the API server, which has few and
// uses them, does not, even where all come from one address.
type connections struct {
	mu   sync.Mutex
	all  int
	byIP map[string]*ofIP
}

// ofIP are the connections of one address.
type ofIP struct {
	place  map[net.Conn]place
	idle   list.List // of net.Conn, the one that is idle for the longest time in front
	proven list.List // those of them that have brought a review
	begun  list.List // those with a request under way that have not brought a review yet
}

// A place is where a connection stands.
type place struct {
	in     *list.List // nil while a request is under way on one that has brought a review
	at     *list.Element
	since  time.Time // when it was put there
	proven bool
}

// note is called when a connection changes its state. It is the ConnState of the HTTP server.
func (c *connections) note(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ip := addressOf(conn)
	of := c.byIP[ip]
	switch state {
	case http.StateNew:
		if of == nil {
			of = &ofIP{place: make(map[net.Conn]place)}
			if c.byIP == nil {
				c.byIP = make(map[string]*ofIP)
			}
			c.byIP[ip] = of
		}
		of.place[conn] = place{}
		c.all++
		c.makeRoom(of, conn)
		of.rest(conn) // from now on it may have to make room itself
	case http.StateActive:
		of.busy(conn)
	case http.StateIdle:
		of.rest(conn)
	case http.StateClosed, http.StateHijacked:
		c.forget(conn)
	}
}

// forget counts a connection no more.
func (c *connections) forget(conn net.Conn) {
	ip := addressOf(conn)
	of := c.byIP[ip]
	if !of.has(conn) {
		return
	}
	of.move(conn, nil)
	delete(of.place, conn)
	c.all--
	if len(of.place) == 0 {
		delete(c.byIP, ip)
	}
}

// has reports whether a connection is counted. One that was closed to make room is not, although the server may still be
// about to notice.
func (o *ofIP) has(conn net.Conn) bool {
	if o == nil {
		return false
	}
	_, ok := o.place[conn]
	return ok
}

// busy says that a request is under way.
func (o *ofIP) busy(conn net.Conn) {
	if !o.has(conn) {
		return
	}
	p := o.place[conn]
	if p.proven {
		o.move(conn, nil)
	} else if p.in != &o.begun {
		o.move(conn, &o.begun)
	}
}

// rest says that no request is under way.
func (o *ofIP) rest(conn net.Conn) {
	if !o.has(conn) {
		return
	}
	if o.place[conn].proven {
		o.move(conn, &o.proven)
	} else {
		o.move(conn, &o.idle)
	}
}

// move puts a connection at the end of a list, if any, and takes it out of the one where it was.
func (o *ofIP) move(conn net.Conn, to *list.List) {
	p := o.place[conn]
	if p.in != nil {
		p.in.Remove(p.at)
	}
	p.in, p.at, p.since = to, nil, time.Now()
	if to != nil {
		p.at = to.PushBack(conn)
	}
	o.place[conn] = p
}

// prove says that a review has come over a connection.
func (c *connections) prove(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.byIP[addressOf(conn)]
	if !of.has(conn) {
		return
	}
	p := of.place[conn]
	p.proven = true
	of.place[conn] = p
	if p.in == &of.begun {
		of.busy(conn)
	}
}

// makeRoom closes a connection if there are too many, after an address has made one.
func (c *connections) makeRoom(of *ofIP, newest net.Conn) {
	if len(of.place) <= maxConnectionsOfIP && c.all <= maxConnections {
		return
	}
	if len(of.place) <= maxConnectionsOfIP {
		of = c.greatest(of)
	}
	victim := of.oldest(c.all > 2*maxConnections)
	if victim == nil && c.all > 2*maxConnections {
		victim = newest
	}
	if victim != nil {
		c.forget(victim)
		hangUp(victim)
	}
}

// greatest returns the address with the most connections. Of several, it is the one that holds one idle for the longest
// time: somebody who has many addresses does not keep out who has one.
func (c *connections) greatest(of *ofIP) *ofIP {
	for _, other := range c.byIP {
		if len(other.place) > len(of.place) || len(other.place) == len(of.place) && other.idles(of) {
			of = other
		}
	}
	return of
}

// idles reports whether an address has a connection that is idle for longer than all of another one.
func (o *ofIP) idles(other *ofIP) bool {
	mine, others := o.idle.Front(), other.idle.Front()
	if mine == nil || others == nil {
		return mine != nil
	}
	return o.place[mine.Value.(net.Conn)].since.Before(other.place[others.Value.(net.Conn)].since)
}

// oldest returns the connection to close first, or nil when each has a request under way. Among those are first requests
// that are slow, and with pressed all first requests.
func (o *ofIP) oldest(pressed bool) net.Conn {
	for _, l := range []*list.List{&o.idle, &o.proven, &o.begun} {
		e := l.Front()
		if e == nil {
			continue
		}
		conn := e.Value.(net.Conn)
		if l != &o.begun || pressed || time.Since(o.place[conn].since) >= slowRequest {
			return conn
		}
	}
	return nil
}

// connectionKey is the key of the connection in the context of a request.
type connectionKey struct{}

// hangUp closes a connection without a word, which could take seconds.
func hangUp(conn net.Conn) {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	_ = conn.Close()
}

func addressOf(conn net.Conn) string {
	host, _, err := net.SplitHostPort(conn.RemoteAddr().String())
	if err != nil {
		return conn.RemoteAddr().String()
	}
	return host
}
