//! Where an engine shows its metrics.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use http::Uri;

/// How an endpoint is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Plain.
    Http,
    /// Over TLS.
    Https,
}

/// Where an engine shows its metrics: `http://10.0.0.7:8000/metrics`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    scheme: Scheme,
    host: String,
    port: u16,
    path: String,
}

/// Why words are no endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// No URL at all.
    #[error("must be a URL such as http://10.0.0.7:8000/metrics")]
    NotAUrl,
    /// Neither http nor https.
    #[error("must begin with http:// or https://")]
    Scheme,
    /// The annotation `prometheus.io/port` is absent or no port.
    #[error("prometheus.io/port must be a port")]
    Port,
    /// The annotation `prometheus.io/scrape` is not "true".
    #[error("prometheus.io/scrape is not \"true\"")]
    NotOffered,
}

impl Endpoint {
    /// The endpoint that the `prometheus.io/*` annotations of a Pod name. Path `/metrics` and scheme `http` where they
    /// are absent or empty.
    ///
    /// # Errors
    /// Why they name none.
    pub fn of_pod(
        ip: IpAddr,
        annotations: &BTreeMap<String, String>,
    ) -> Result<Self, EndpointError> {
        let annotation = |name: &str| {
            let value = annotations.get(&format!("prometheus.io/{name}"))?;
            Some(value.as_str()).filter(|value| !value.is_empty())
        };
        if annotation("scrape") != Some("true") {
            return Err(EndpointError::NotOffered);
        }
        let scheme = match annotation("scheme") {
            None | Some("http") => Scheme::Http,
            Some("https") => Scheme::Https,
            Some(_) => return Err(EndpointError::Scheme),
        };
        let port = annotation("port")
            .and_then(|port| port.parse().ok())
            .ok_or(EndpointError::Port)?;
        let path = annotation("path").unwrap_or("/metrics");
        let path = if path.starts_with('/') {
            path.to_owned()
        } else {
            format!("/{path}")
        };
        // What a request line cannot carry is found here and not at each scrape.
        path.parse::<Uri>().map_err(|_| EndpointError::NotAUrl)?;
        Ok(Self {
            scheme,
            host: ip.to_string(),
            port,
            path,
        })
    }

    /// How it is spoken to.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The address, or the name.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The path, with its query.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Host and port as a URL has them.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(url: &str) -> Result<Self, EndpointError> {
        let uri: Uri = url.parse().map_err(|_| EndpointError::NotAUrl)?;
        let (scheme, port) = match uri.scheme_str() {
            Some("http") => (Scheme::Http, 80),
            Some("https") => (Scheme::Https, 443),
            _ => return Err(EndpointError::Scheme),
        };
        let host = uri.host().ok_or(EndpointError::NotAUrl)?;
        let host = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host);
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        Ok(Self {
            scheme,
            host: host.to_owned(),
            port: uri.port_u16().unwrap_or(port),
            path: path.to_owned(),
        })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
        };
        write!(f, "{scheme}://{}{}", self.authority(), self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotations(of: &[(&str, &str)]) -> BTreeMap<String, String> {
        of.iter()
            .map(|(name, value)| (format!("prometheus.io/{name}"), (*value).to_owned()))
            .collect()
    }

    fn of_pod(ip: &str, of: &[(&str, &str)]) -> Result<String, EndpointError> {
        Endpoint::of_pod(ip.parse().unwrap(), &annotations(of)).map(|endpoint| endpoint.to_string())
    }

    #[test]
    fn a_pod_names_its_endpoint_by_annotations() {
        let plain = [("scrape", "true"), ("port", "8000"), ("scheme", "")];
        assert_eq!(
            of_pod("10.0.0.7", &plain).as_deref(),
            Ok("http://10.0.0.7:8000/metrics")
        );
        let all = [
            ("scrape", "true"),
            ("port", "30000"),
            ("scheme", "https"),
            ("path", "m?x=1"),
        ];
        assert_eq!(
            of_pod("fd00::7", &all).as_deref(),
            Ok("https://[fd00::7]:30000/m?x=1")
        );
    }

    #[test]
    fn a_pod_that_offers_nothing_says_why() {
        assert_eq!(
            of_pod("10.0.0.7", &[("port", "8000")]),
            Err(EndpointError::NotOffered)
        );
        assert_eq!(
            of_pod("10.0.0.7", &[("scrape", "true")]),
            Err(EndpointError::Port)
        );
        assert_eq!(
            of_pod("10.0.0.7", &[("scrape", "true"), ("port", "x")]),
            Err(EndpointError::Port)
        );
        let scheme = [("scrape", "true"), ("port", "1"), ("scheme", "ftp")];
        assert_eq!(of_pod("10.0.0.7", &scheme), Err(EndpointError::Scheme));
        let path = [("scrape", "true"), ("port", "1"), ("path", "/a b")];
        assert_eq!(of_pod("10.0.0.7", &path), Err(EndpointError::NotAUrl));
    }

    #[test]
    fn a_url_is_read_and_written_back() {
        for url in [
            "http://127.0.0.1:8000/metrics",
            "https://[::1]:1/m?a=b",
            "http://engine:80/",
        ] {
            assert_eq!(
                url.parse::<Endpoint>()
                    .map(|endpoint| endpoint.to_string())
                    .as_deref(),
                Ok(url)
            );
        }
        assert_eq!(
            "https://engine/metrics"
                .parse::<Endpoint>()
                .map(|endpoint| endpoint.port()),
            Ok(443)
        );
        assert_eq!(
            "engine:8000".parse::<Endpoint>(),
            Err(EndpointError::Scheme)
        );
        assert_eq!("http://".parse::<Endpoint>(), Err(EndpointError::NotAUrl));
        assert_eq!("ftp://x/".parse::<Endpoint>(), Err(EndpointError::Scheme));
    }
}
