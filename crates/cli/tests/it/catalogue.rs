//! Models of the catalogue, where nothing may be fetched.

use crate::program::Sandbox;

#[test]
fn nothing_is_fetched_offline() {
    let sandbox = Sandbox::new();
    let parts = ["is not here yet", "fetching is switched off", "run without --offline"];
    for command in [
        &["models", "fetch"][..],
        &["models", "fetch", "silero-vad"],
        &["models", "inspect", "silero-vad"],
        &["bench", "-m", "silero-vad"],
        &["route", "-m", "silero-vad"],
        &["run", "-m", "silero-vad"],
    ] {
        sandbox.refuse(3, &parts, command);
    }
}

#[test]
fn the_catalogue_says_what_is_here() {
    let sandbox = Sandbox::new();
    sandbox.generate();
    sandbox.succeed(&["models", "add", "mlp-128w-4l.onnx"]);
    let listed = sandbox.document("siliconroute.models/1", &["models", "list"]);
    let catalogue = listed["catalogue"].as_array().unwrap();
    assert!(catalogue.len() > 10);
    assert!(catalogue.iter().all(|model| model["here"] == false && model["licence"].is_string()));
    assert_eq!(listed["known"][0]["name"], "mlp-128w-4l");
    assert_eq!(listed["known"][0]["parameters"], 4 * 128 * 128);
}

#[test]
fn models_go_where_they_are_wanted() {
    let sandbox = Sandbox::new();
    let file = sandbox.write("file", "in the way");
    let to = crate::program::text(&file);
    sandbox.refuse(1, &["cannot write", to], &["models", "generate", "mlp-8w-1l", "--to", to]);
    let made = sandbox.document(
        "siliconroute.models/1",
        &["models", "generate", "mlp-8w-1l", "attn-8d-1l", "conv-2c-1l", "--to", "new/folder"],
    );
    assert_eq!(made["generated"].as_array().unwrap().len(), 3);
    for name in ["mlp-8w-1l", "attn-8d-1l", "conv-2c-1l"] {
        let file = format!("new/folder/{name}.onnx");
        sandbox.document("siliconroute.run/1", &["run", "-d", "cpu/rten", "-m", &file]);
    }
}
