//! Fetches from textures against what a program computes from the texels.

mod support;

use gpubench_virtual_gpu_ptx::Texture;
use support::{Case, address};

const FETCH: &str = ".version 7.0\n.target sm_70\n.address_size 64
.visible .entry fetch(.param .u64 object, .param .u64 out, .param .f32 x, .param .f32 y) {
    .reg .f32 %f<7>; .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [object]; ld.param.u64 %rd2, [out];
    ld.param.f32 %f1, [x]; ld.param.f32 %f2, [y];
    tex.2d.v4.f32.f32 {%f3, %f4, %f5, %f6}, [%rd1, {%f1, %f2}];
    st.global.v4.f32 [%rd2], {%f3, %f4, %f5, %f6};
    ret;
}";

#[test]
fn a_texel_is_that_of_its_coordinates_mode_and_filter() -> Result<(), Box<dyn std::error::Error>> {
    // Four by two texels of one float: 0 to 7.
    let texels: Vec<u8> = (0..8).flat_map(|at| (at as f32).to_le_bytes()).collect();
    let plain = Texture {
        address: address(1),
        pitch: 16,
        width: 4,
        height: 2,
        format: 0x20,
        channels: 1,
        modes: [1, 1],
        border: [9.0, 0.0, 0.0, 1.0],
        ..Texture::default()
    };
    let normalized = Texture { normalized: true, modes: [0, 2], ..plain };
    for (texture, x, y, first) in [
        (plain, 1.5, 1.5, 5.0),
        (plain, -7.0, 9.0, 4.0),
        (Texture { modes: [3, 3], ..plain }, 4.5, 0.0, 9.0),
        (Texture { linear: true, ..plain }, 2.0, 1.0, 3.5),
        (Texture { linear: true, ..plain }, 0.0, 0.0, 0.0),
        (normalized, 1.4, 0.3, 1.0),
        (normalized, 0.1, -0.3, 0.0),
        (normalized, 0.1, 1.3, 4.0),
    ] {
        let case = Case::new(FETCH, "fetch").block(1);
        let case = case.arg(address(0).to_le_bytes()).arg(address(2).to_le_bytes());
        let case = case.arg(f32::to_le_bytes(x)).arg(f32::to_le_bytes(y));
        let mut buffers = [texture.pack().to_vec(), texels.clone(), vec![0; 16]];
        case.run(&mut buffers)?;
        let found = f32::from_le_bytes(buffers[2][..4].try_into()?);
        assert_eq!(found, first, "{x}, {y} of {texture:?}");
        assert_eq!(buffers[2][12..], 1f32.to_le_bytes());
    }
    let case = Case::new(FETCH, "fetch").block(1).arg(address(1).to_le_bytes());
    let case = case.arg(address(1).to_le_bytes()).arg([0; 4]).arg([0; 4]);
    let mut buffers = [vec![0; 16], texels];
    assert!(case.run(&mut buffers).is_err(), "no texture object");
    Ok(())
}
