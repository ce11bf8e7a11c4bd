//! One sentence about a failed call to the API server, for logs, refusals and the terminal.

use std::error::Error;

/// What the API server said, where it said something; else the error with its causes, since the outermost of a client's
/// errors says no more than that there is one.
pub fn sentence(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => {
            format!(
                "the API server answered {}: {}",
                status.code, status.message
            )
        }
        other => causes(other),
    }
}

fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // Many errors repeat their cause.
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;

    #[test]
    fn the_words_of_the_api_server_come_first() {
        let status = Status {
            code: 403,
            message: "no access".to_owned(),
            ..Status::default()
        };
        let error = kube::Error::Api(Box::new(status));
        assert_eq!(sentence(&error), "the API server answered 403: no access");
    }

    #[test]
    fn a_cause_is_named_once() {
        let error = kube::Error::Service("it broke".into());
        assert_eq!(sentence(&error), "ServiceError: it broke");
        let parse = serde_json::from_str::<u8>("x").unwrap_err();
        let text = sentence(&kube::Error::SerdeError(parse));
        assert_eq!(text.matches("expected value").count(), 1, "{text}");
    }
}
